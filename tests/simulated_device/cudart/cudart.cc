// A CUDA runtime without a device: virtual host clock, in-order streams, events, graphs.
//
// A rendered .cu program is compiled by nvcc and linked with this file instead of libcudart. Kernels are
// not run; their times come from the environment:
//   SIM_KERNELS  "name=warm_us/cold_us,..."  (a kernel matches when its mangled name holds the name)
//   SIM_SPIN     "name,..."   kernels whose first argument (64 bits) is a number of SM cycles at 1980 MHz
//   SIM_FLUSH    "name,..."   kernels that evict the L2 (so does a memset of more than 60 MiB)
//   SIM_PERSIST  "name,..."   kernels whose data outlives that, until persisting lines are reset
//   SIM_FAIL     "function"   this runtime call fails with an error
//   SIM_FIRST_US, SIM_RAMP_US cost of a kernel's first launch; length of the slow start
//   SIM_GRAPH_GAP_US  gap between kernels of a graph, once two streams have launched kernels
//   SIM_CUPTI    "1": libcupti can be loaded; "busy": another tool has it already; "lossy": a record
//                is lost
//   SIM_CUPTI_SLOWS "name,..."  kernels that take 6 % longer while CUPTI traces, but not one at a time
// Times are in microseconds.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace {

constexpr double kLaunchUs = 3.0, kRecordUs = 1.0, kSyncUs = 8.0, kGraphLaunchUs = 6.0;
constexpr double kLatencyUs = 2.0, kEagerGapUs = 1.0, kGraphGapUs = 0.08, kGraphPeriodUs = 1.2;
constexpr double kOneStreamUs = 0.18;  // sooner, as long as one stream alone has launched kernels
constexpr double kGraphStartUs = 3.0, kEventUs = 1.25, kEventKernelUs = 1.4, kResolutionUs = 0.032;
constexpr double kBoostMhz = 1980.0;
constexpr size_t kQueueLimit = 1000, kL2Bytes = size_t(60) << 20;

enum class Last { kNothing, kKernel, kEvent };

struct Kernel {
  std::string name;
  double us = 5.0;
  bool flush = false, persists = false;
  dim3 grid{1, 1, 1}, block{1, 1, 1};
};

struct Stream {
  double tail = 0.0;
  Last last = Last::kNothing;
  int launches = 0;
  bool capturing = false;
  bool broken = false;
  std::vector<Kernel> captured;
};

struct Event {
  double time = 0.0;
  bool recorded = false;
  bool timing = true;
};

struct Graph {
  std::vector<Kernel> nodes;
};

// As much of CUPTI's record of a kernel as the programs under test read.
struct KernelRecord {
  uint32_t kind = 10, padding[3] = {};
  uint64_t start_ns, end_ns, more[2] = {};
  uint32_t stream = 0;
  int32_t grid[3], block[3], rest[3] = {};
};
static_assert(sizeof(KernelRecord) == 88, "start in bytes 16 to 23, the grid from byte 52 on");

double now_us = 1e6;
double load_began = -1.0;
cudaError_t sticky = cudaSuccess;
Stream legacy;
std::set<Stream*> streams{&legacy};
std::deque<double> queue;
std::set<std::string> loaded, warm, kept;
std::mt19937 generator(7);
int tracing = 0;  // the kind of CUPTI's activities
constexpr double kSerialUs = 1.4;
std::vector<KernelRecord> records;

// Kernels are registered before this file's globals are constructed.
std::map<const void*, std::string>& names() {
  static std::map<const void*, std::string> found;
  return found;
}

double env_us(const char* name, double fallback) {
  const char* text = std::getenv(name);
  return text ? std::atof(text) : fallback;
}

bool listed(const char* variable, const std::string& name) {
  const char* text = std::getenv(variable);
  if (!text) return false;
  char* copy = strdup(text);
  bool found = false;
  for (char* part = std::strtok(copy, ","); part; part = std::strtok(nullptr, ",")) {
    found = found || name.find(part) != std::string::npos;
  }
  std::free(copy);
  return found;
}

bool kernel_times(const std::string& name, double* warm_us, double* cold_us) {
  const char* text = std::getenv("SIM_KERNELS");
  if (!text) return false;
  char* copy = strdup(text);
  bool found = false;
  for (char* part = std::strtok(copy, ","); part && !found; part = std::strtok(nullptr, ",")) {
    char* equal = std::strchr(part, '=');
    if (!equal) continue;
    *equal = 0;
    if (name.find(part) == std::string::npos) continue;
    found = true;
    char* slash = std::strchr(equal + 1, '/');
    *warm_us = std::atof(equal + 1);
    *cold_us = slash ? std::atof(slash + 1) : *warm_us;
  }
  std::free(copy);
  return found;
}

cudaError_t done(const char* function, cudaError_t status = cudaSuccess) {
  const char* fail = std::getenv("SIM_FAIL");
  if (status == cudaSuccess && fail && !std::strcmp(fail, function)) status = cudaErrorInvalidValue;
  if (status != cudaSuccess) sticky = status;
  if (now_us > 900e6) {
    std::fprintf(stderr, "simulated runtime: more than 900 virtual seconds\n");
    std::_Exit(124);
  }
  return status;
}

Stream* of(cudaStream_t stream) {
  auto value = reinterpret_cast<size_t>(stream);
  return value <= 2 ? &legacy : reinterpret_cast<Stream*>(stream);
}

Stream* capturing() {
  for (Stream* stream : streams) {
    if (stream->capturing) return stream;
  }
  return nullptr;
}

bool forbidden() {
  Stream* stream = capturing();
  if (stream) stream->broken = true;
  return stream != nullptr;
}

void admit() {
  while (!queue.empty() && queue.front() <= now_us) queue.pop_front();
  while (queue.size() >= kQueueLimit) {
    now_us = std::max(now_us, queue.front());
    queue.pop_front();
  }
}

double clock_scale(double start) {
  if (load_began < 0) load_began = start;
  double ramp = env_us("SIM_RAMP_US", 15e3), loaded = start - load_began;
  return loaded < ramp ? 1.0 / (0.7 + 0.3 * loaded / ramp) : 1.0;
}

double noise() {
  static std::normal_distribution<double> normal(1.0, 0.003);
  return normal(generator);
}

double busy_us(const Kernel& kernel) {
  double warm_us = kernel.us, cold_us = kernel.us;
  kernel_times(kernel.name, &warm_us, &cold_us);
  bool is_warm = warm.count(kernel.name) > 0;
  if (kernel.flush) warm = kept;
  warm.insert(kernel.name);
  if (kernel.persists) kept.insert(kernel.name);
  const double slower = tracing == 10 && listed("SIM_CUPTI_SLOWS", kernel.name) ? 1.06 : 1.0;
  return (is_warm ? warm_us : cold_us) * slower * noise();
}

void record(const Kernel& kernel, double start, double end) {
  if (!tracing || kernel.name[0] == '[') return;  // a memset or a copy
  const dim3 &g = kernel.grid, &b = kernel.block;
  KernelRecord made;
  made.kind = tracing;
  if (tracing == 3) end += kSerialUs;
  made.start_ns = static_cast<uint64_t>(1e3 * start), made.end_ns = static_cast<uint64_t>(1e3 * end);
  const int32_t sizes[6] = {int32_t(g.x), int32_t(g.y), int32_t(g.z), int32_t(b.x), int32_t(b.y), int32_t(b.z)};
  std::memcpy(made.grid, sizes, sizeof sizes);
  records.push_back(made);
}

double graph_gap_us() {
  int busy = 0;
  for (const Stream* stream : streams) busy += stream->launches >= 10;
  return env_us("SIM_GRAPH_GAP_US", kGraphGapUs) - (busy > 1 ? 0.0 : kOneStreamUs);
}

void run(const Kernel& kernel, Stream* stream) {
  if (stream->capturing) {
    stream->captured.push_back(kernel);
    return;
  }
  admit();
  double gap = stream->last == Last::kEvent ? kEventKernelUs / 2 : kEagerGapUs;
  double start = std::max(now_us + kLatencyUs, stream->tail + gap);
  stream->tail = start + busy_us(kernel) * clock_scale(start);
  stream->last = Last::kKernel;
  if (kernel.name[0] != '[') ++stream->launches;
  record(kernel, start, stream->tail);
  queue.push_back(stream->tail);
}

void wait_until(double us) {
  bool waited = us > now_us;
  now_us = std::max(now_us, us) + (waited ? kSyncUs : kSyncUs / 2);
}

double all_done() {
  double latest = 0.0;
  for (Stream* stream : streams) latest = std::max(latest, stream->tail);
  return latest;
}

}  // namespace

// Every host clock that a program can read is the virtual one.
namespace std::chrono {
inline namespace _V2 {
steady_clock::time_point steady_clock::now() noexcept {
  now_us += 0.05;
  return time_point(duration(static_cast<rep>(now_us * 1e3)));
}
system_clock::time_point system_clock::now() noexcept {
  now_us += 0.05;
  return time_point(duration(static_cast<rep>((1.7e15 + now_us) * 1e3)));
}
}  // namespace _V2
}  // namespace std::chrono

extern "C" {

int clock_gettime(clockid_t, struct timespec* out) {
  now_us += 0.05;
  out->tv_sec = static_cast<time_t>(now_us / 1e6);
  out->tv_nsec = static_cast<long>((now_us - out->tv_sec * 1e6) * 1e3);
  return 0;
}

void** __cudaRegisterFatBinary(void*) { return nullptr; }
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  names()[host] = name;
}

static struct {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
} pushed;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream) {
  pushed = {grid, block, shared, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = pushed.grid, *block = pushed.block, *shared = pushed.shared;
  *static_cast<cudaStream_t*>(stream) = pushed.stream;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t,
                             cudaStream_t stream) {
  const std::string& name = names()[function];
  now_us += kLaunchUs;
  if (loaded.insert(name).second) now_us += env_us("SIM_FIRST_US", 2000.0);
  if (block.x * block.y * block.z > 1024) return done("cudaLaunchKernel", cudaErrorInvalidConfiguration);
  Kernel kernel{name};
  kernel.grid = grid, kernel.block = block;
  if (listed("SIM_SPIN", name)) {
    long long cycles;
    std::memcpy(&cycles, arguments[0], sizeof cycles);
    kernel.us = std::max(0.65, cycles / kBoostMhz);
  }
  kernel.flush = listed("SIM_FLUSH", name);
  kernel.persists = listed("SIM_PERSIST", name);
  run(kernel, of(stream));
  return done("cudaLaunchKernel");
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

// --- device and versions ------------------------------------------------------------------------
cudaError_t cudaGetDeviceCount(int* count) {
  *count = std::getenv("SIM_NO_GPU") ? 0 : 1;
  return done("cudaGetDeviceCount", *count ? cudaSuccess : cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int) { return done("cudaSetDevice"); }
cudaError_t cudaGetDevice(int* device) { return *device = 0, done("cudaGetDevice"); }
cudaError_t cudaFree(void* pointer) {
  if (forbidden()) return done("cudaFree", cudaErrorStreamCaptureUnsupported);
  std::free(pointer);
  return done("cudaFree");
}
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrL2CacheSize: *value = static_cast<int>(kL2Bytes); break;
    case cudaDevAttrMultiProcessorCount: *value = 132; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = 32; break;
    case cudaDevAttrClockRate: *value = 1980000; break;
    case cudaDevAttrMemoryClockRate: *value = 3201000; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = 6144; break;
    case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
    case cudaDevAttrComputeCapabilityMinor: *value = 0; break;
    default: *value = 0;
  }
  return done("cudaDeviceGetAttribute");
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::memset(properties, 0, sizeof *properties);
  std::strcpy(properties->name, "NVIDIA H200");
  properties->major = 9, properties->multiProcessorCount = 132;
  properties->l2CacheSize = static_cast<int>(kL2Bytes), properties->memoryBusWidth = 6144;
  properties->totalGlobalMem = size_t(150) << 30;
  properties->maxThreadsPerBlock = 1024, properties->warpSize = 32;
  return done("cudaGetDeviceProperties");
}
cudaError_t cudaGetDeviceProperties_v2(cudaDeviceProp* properties, int device) {
  return cudaGetDeviceProperties(properties, device);
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int) {
  std::snprintf(text, length, "0000:00:00.0");
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaCtxResetPersistingL2Cache() {
  kept.clear();
  return done("cudaCtxResetPersistingL2Cache");
}
cudaError_t cudaGetLastError() {
  cudaError_t status = sticky;
  sticky = cudaSuccess;
  return status;
}
cudaError_t cudaPeekAtLastError() { return sticky; }
const char* cudaGetErrorString(cudaError_t status) {
  switch (status) {
    case cudaSuccess: return "no error";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    case cudaErrorNotReady: return "device not ready";
    default: return "invalid argument";
  }
}
const char* cudaGetErrorName(cudaError_t status) {
  return status == cudaSuccess ? "cudaSuccess" : "cudaError";
}

// --- memory -------------------------------------------------------------------------------------
cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  now_us += 100.0;
  if (forbidden()) return done("cudaMalloc", cudaErrorStreamCaptureUnsupported);
  // Contents are never read: a page stands for any size.
  *pointer = std::calloc(1, std::min<size_t>(bytes, 1 << 20));
  return done("cudaMalloc");
}
cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned) { return cudaMalloc(pointer, bytes); }
cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  *pointer = std::calloc(1, bytes);
  return done("cudaMallocHost");
}
cudaError_t cudaFreeHost(void* pointer) { return std::free(pointer), cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = size_t(140) << 30;
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void*, int, size_t bytes, cudaStream_t stream) {
  now_us += kLaunchUs;
  run(Kernel{"[memset]", 1.0 + bytes / 4.3e6, bytes >= kL2Bytes}, of(stream));
  return done("cudaMemsetAsync");
}
cudaError_t cudaMemset(void* pointer, int value, size_t bytes) {
  return cudaMemsetAsync(pointer, value, bytes, nullptr);
}
cudaError_t cudaMemcpyAsync(void*, const void*, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  now_us += kLaunchUs;
  double rate = kind == cudaMemcpyDeviceToDevice ? 4.3e6 : 25e3;
  run(Kernel{"[memcpy]", 1.0 + bytes / rate, false}, of(stream));
  return done("cudaMemcpyAsync");
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (forbidden()) return done("cudaMemcpy", cudaErrorStreamCaptureUnsupported);
  cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  wait_until(legacy.tail);
  return done("cudaMemcpy");
}

// --- streams and waits --------------------------------------------------------------------------
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  auto* made = new Stream;
  streams.insert(made);
  *stream = reinterpret_cast<cudaStream_t>(made);
  return done("cudaStreamCreateWithFlags");
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  cudaStreamCreateWithFlags(stream, 0);
  return done("cudaStreamCreate");
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return done("cudaStreamDestroy"); }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (forbidden()) return done("cudaStreamSynchronize", cudaErrorStreamCaptureUnsupported);
  wait_until(of(stream)->tail);
  return done("cudaStreamSynchronize");
}
cudaError_t cudaDeviceSynchronize() {
  if (forbidden()) return done("cudaDeviceSynchronize", cudaErrorStreamCaptureUnsupported);
  wait_until(all_done());
  return done("cudaDeviceSynchronize");
}
cudaError_t cudaDeviceReset() { return cudaSuccess; }

// --- events -------------------------------------------------------------------------------------
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  auto* made = new Event;
  made->timing = !(flags & cudaEventDisableTiming);
  *event = reinterpret_cast<cudaEvent_t>(made);
  return done("cudaEventCreateWithFlags");
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  cudaEventCreateWithFlags(event, 0);
  return done("cudaEventCreate");
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<Event*>(event);
  return done("cudaEventDestroy");
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  auto* mark = reinterpret_cast<Event*>(event);
  Stream* on = of(stream);
  now_us += kRecordUs;
  mark->recorded = true;
  if (on->capturing) return done("cudaEventRecord");
  admit();
  double wait = on->last == Last::kKernel ? kEventKernelUs / 2 : 0.0;
  double start = std::max(now_us + kLatencyUs, on->tail + wait);
  mark->time = static_cast<long long>(start / kResolutionUs) * kResolutionUs;
  on->tail = start + kEventUs;
  on->last = Last::kEvent;
  queue.push_back(on->tail);
  return done("cudaEventRecord");
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Stream* on = of(stream);
  on->tail = std::max(on->tail, reinterpret_cast<Event*>(event)->time);
  return done("cudaStreamWaitEvent");
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (forbidden()) return done("cudaEventSynchronize", cudaErrorStreamCaptureUnsupported);
  wait_until(reinterpret_cast<Event*>(event)->time);
  return done("cudaEventSynchronize");
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  now_us += 0.7;
  if (forbidden()) return done("cudaEventQuery", cudaErrorStreamCaptureUnsupported);
  return reinterpret_cast<Event*>(event)->time <= now_us ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  now_us += 0.7;
  return of(stream)->tail <= now_us ? cudaSuccess : cudaErrorNotReady;
}
static cudaError_t elapsed(float* ms, cudaEvent_t start, cudaEvent_t end) {
  auto *first = reinterpret_cast<Event*>(start), *second = reinterpret_cast<Event*>(end);
  if (!first->recorded || !second->recorded || !first->timing || !second->timing) {
    return done("cudaEventElapsedTime", cudaErrorInvalidResourceHandle);
  }
  if (std::max(first->time, second->time) > now_us) return done("cudaEventElapsedTime", cudaErrorNotReady);
  *ms = static_cast<float>((second->time - first->time) / 1e3);
  return done("cudaEventElapsedTime");
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return elapsed(ms, start, end);
}
cudaError_t cudaEventElapsedTime_v2(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return elapsed(ms, start, end);
}

// --- graphs -------------------------------------------------------------------------------------
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  Stream* on = of(stream);
  if (on == &legacy) return done("cudaStreamBeginCapture", cudaErrorStreamCaptureUnsupported);
  on->capturing = true, on->broken = false;
  on->captured.clear();
  return done("cudaStreamBeginCapture");
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  Stream* on = of(stream);
  on->capturing = false;
  if (on->broken) return done("cudaStreamEndCapture", cudaErrorStreamCaptureInvalidated);
  *graph = reinterpret_cast<cudaGraph_t>(new Graph{on->captured});
  return done("cudaStreamEndCapture");
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = of(stream)->capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  auto* source = reinterpret_cast<Graph*>(graph);
  now_us += 50.0 + source->nodes.size();
  *exec = reinterpret_cast<cudaGraphExec_t>(new Graph(*source));
  return done("cudaGraphInstantiate");
}
#if CUDART_VERSION >= 12000
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(exec, graph, flags);
}
#endif
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return done("cudaGraphUpload"); }
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  *count = reinterpret_cast<Graph*>(graph)->nodes.size();
  return done("cudaGraphGetNodes");
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  auto* graph = reinterpret_cast<Graph*>(exec);
  Stream* on = of(stream);
  now_us += kGraphLaunchUs;
  admit();
  double gap = on->last == Last::kEvent ? kEventKernelUs / 2 : kEagerGapUs;
  double at = std::max(now_us + kLatencyUs, on->tail + gap) + kGraphStartUs;
  double scale = clock_scale(at), end = at;
  bool flushed = false;
  for (const Kernel& kernel : graph->nodes) {
    double us = busy_us(kernel) * scale;
    if (flushed) at += env_us("SIM_FLUSH_GAP_US", 0.0);  // 0.2 us more than elsewhere on an H200
    flushed = kernel.flush;
    end = at + us;
    record(kernel, at, end);
    at += std::max(us + graph_gap_us(), kGraphPeriodUs);
  }
  on->tail = end;
  on->last = Last::kKernel;
  queue.push_back(end);
  return done("cudaGraphLaunch");
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return done("cudaGraphExecDestroy"); }
cudaError_t cudaGraphDestroy(cudaGraph_t) { return done("cudaGraphDestroy"); }

// --- CUPTI, and libraries that can be loaded: no other -------------------------------------------
static void (*give_buffer)(uint8_t**, size_t*, size_t*);
static void (*take_buffer)(void*, uint32_t, uint8_t*, size_t, size_t);

static int subscribe(void**, void*, void*) {
  return std::strcmp(std::getenv("SIM_CUPTI"), "busy") ? 0 : 39;  // several clients: not supported
}
static int set_buffers(void* give, void* take) {
  give_buffer = reinterpret_cast<decltype(give_buffer)>(give);
  take_buffer = reinterpret_cast<decltype(take_buffer)>(take);
  return 0;
}
static int enable(int kind) { return tracing = kind, 0; }
static int disable(int) { return tracing = 0; }
static int flush_all(uint32_t) {
  uint8_t* buffer;
  size_t size, most;
  give_buffer(&buffer, &size, &most);
  if (!std::strcmp(std::getenv("SIM_CUPTI"), "lossy")) records.pop_back();
  const size_t used = std::min(size, records.size() * sizeof(KernelRecord));
  std::memcpy(buffer, records.data(), used);
  records.clear();
  take_buffer(nullptr, 0, buffer, size, used);
  return 0;
}
static int next_record(uint8_t* buffer, size_t valid, void** at) {
  auto* next = *at ? static_cast<uint8_t*>(*at) + sizeof(KernelRecord) : buffer;
  if (next + sizeof(KernelRecord) > buffer + valid) return 12;  // no more
  *at = next;
  return 0;
}

void* dlopen(const char* name, int) noexcept {
  return std::getenv("SIM_CUPTI") && std::strstr(name, "libcupti.so.13") ? &records : nullptr;
}
void* dlsym(void* handle, const char* name) noexcept {
  const std::map<std::string, void*> found = {
      {"cuptiSubscribe", reinterpret_cast<void*>(subscribe)},
      {"cuptiActivityRegisterCallbacks", reinterpret_cast<void*>(set_buffers)},
      {"cuptiActivityEnable", reinterpret_cast<void*>(enable)},
      {"cuptiActivityDisable", reinterpret_cast<void*>(disable)},
      {"cuptiActivityFlushAll", reinterpret_cast<void*>(flush_all)},
      {"cuptiActivityGetNextRecord", reinterpret_cast<void*>(next_record)},
  };
  const auto entry = found.find(name);
  return handle == &records && entry != found.end() ? entry->second : nullptr;
}

}  // extern "C"
