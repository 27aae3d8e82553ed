// What CUPTI records for one kernel of a CUDA program, in that program: the driver loads this library
// where CUDA_INJECTION64_PATH names it. From the environment:
//   TRUTH_KERNEL  part of the kernel's name
//   TRUTH_KIND    10: as profilers trace; 3: kernels are run one at a time, their code untouched
//   TRUTH_FILE    gets the times in us, one a line; then the program is ended
#include <cupti.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static const double kSkippedNs = 150e6;  // as long as clocks may still rise
static const size_t kWanted = 350;
static uint64_t first_ns = 0;
static std::vector<double> times_us;

static void write_and_end() {
  std::FILE* file = std::fopen(std::getenv("TRUTH_FILE"), "w");
  if (!file) _exit(2);
  for (double us : times_us) std::fprintf(file, "%.3f\n", us);
  std::fclose(file);
  _exit(0);
}

static void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *size = 32 << 10;  // small, so that it is full soon
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, *size));
  *most_records = 0;
}

static void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_KERNEL &&
        record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      continue;
    }
    const auto* kernel = reinterpret_cast<CUpti_ActivityKernel9*>(record);
    if (!std::strstr(kernel->name, std::getenv("TRUTH_KERNEL"))) continue;
    if (!first_ns) first_ns = kernel->start;
    if (kernel->start - first_ns < kSkippedNs) continue;
    times_us.push_back((kernel->end - kernel->start) / 1e3);
    if (times_us.size() >= kWanted) write_and_end();
  }
  std::free(buffer);
}

extern "C" int InitializeInjection() {
  const auto kind = static_cast<CUpti_ActivityKind>(std::atoi(std::getenv("TRUTH_KIND")));
  const bool ready = cuptiActivityRegisterCallbacks(give_buffer, take_buffer) == CUPTI_SUCCESS &&
                     cuptiActivityEnable(kind) == CUPTI_SUCCESS;
  return ready ? 1 : 0;
}
