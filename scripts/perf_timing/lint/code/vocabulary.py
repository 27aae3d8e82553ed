"""The names that the engine knows: clocks, waits, GPU work, allocations, output and so on.

Names are compared after import aliases have been resolved (`tc.synchronize` is
`torch.cuda.synchronize`); most sets hold the last segment only, because the object in front of it
is rarely known. What is not listed here is not guessed by more than a name's usual meaning.
"""

# Long lists of names read better as text.
# ruff: noqa: SIM905

import re

# What runs on a device, or may: without such a word a clock measures the host.
_DEVICE_WORDS = (
    "torch cuda cupy numba triton cutlass tensorrt xpu accelerat mlx onnxruntime habana gpu cublas "
    "cudnn cufft cusparse cusolver curand cutensor nccl rccl rocblas miopen thrust device nvtx <<< "
    "tilelang register_forward vllm sglang lmdeploy cudf cuml cugraph rocsparse hipsparse hipblas"
    " rocsolver rocfft rocrand hipfft hiprand hipsolver"
).split()
_DEVICE_PATTERNS = tuple(
    (word, re.compile(pattern))
    for word, pattern in (
        # Not the ends of "relationship", "execute", "ajax" and "timestamps".
        *((word, rf"{word}(?<![a-z]{word})") for word in ("jax", "cute", "hip")),
        ("warp", r"(import|from)\s+warp\b"),
        ("mps", r"mps(?<![a-z]mps)(?![a-z])"),
        (".on_", r"\.on_\w+_end"),
    )
)


def names_device(text: str) -> bool:
    """Whether a text holds a word of a device, in whatever case."""
    if "torch" in text or "cuda" in text:  # what nearly all do
        return True
    text = text.lower()
    return any(word in text for word in _DEVICE_WORDS) or any(
        word in text and pattern.search(text) for word, pattern in _DEVICE_PATTERNS
    )


# Host clocks by full name: the unit that one tick stands for.
PYTHON_CLOCKS = {
    "time.time": "s",
    "time.perf_counter": "s",
    "time.monotonic": "s",
    "time.process_time": "s",
    "time.thread_time": "s",
    "time.clock": "s",
    "time.time_ns": "ns",
    "time.perf_counter_ns": "ns",
    "time.monotonic_ns": "ns",
    "time.process_time_ns": "ns",
    "time.thread_time_ns": "ns",
    "time.clock_gettime": "s",
    "time.clock_gettime_ns": "ns",
    "timeit.default_timer": "s",
    "datetime.now": "datetime",
    "datetime.utcnow": "datetime",
    "datetime.datetime.now": "datetime",
    "datetime.datetime.utcnow": "datetime",
    "pandas.Timestamp.now": "datetime",
    "MPI.Wtime": "s",
    "mpi4py.MPI.Wtime": "s",
    "torch._C._get_time": "s",
}
# C and C++: functions whose value is a time, and functions that fill a variable with it.
CPP_CLOCKS = {
    "clock": "ticks",
    "std::clock": "ticks",
    "omp_get_wtime": "s",
    "MPI_Wtime": "s",
    "time": "s",
    "std::time": "s",
    "GetTickCount": "ms",
    "GetTickCount64": "ms",
    "__rdtsc": "cycles",
    "absl::Now": "duration",
    "absl::GetCurrentTimeNanos": "ns",
}
# Helpers of other files that read a host clock; they take nothing and return seconds.
CPP_CLOCK_HELPER = re.compile(
    r"^(seconds|cpu_?[sS]econds?|get_?(cur(rent)?_?|wall_?|cpu_?)?[tT]ime(_?(us|ms|ns|sec))?|w_?time|wall_?time"
    r"|rt_?clock|dtime|read_?timer|timestamp(_?(us|ms|ns))?|now_?(us|ms|ns)|mysecond)$"
)
CPP_CLOCK_FILLERS = {
    "gettimeofday": 0,
    "clock_gettime": 1,
    "QueryPerformanceCounter": 0,
    "timespec_get": 0,
    "ftime": 0,
}

# What is taken from the result of a pipeline of diffusers: arrays or pictures on the host.
PIPELINE_OUTPUTS = (".images", ".frames", ".videos", ".audios")
# What makes a pipeline of diffusers or transformers.
PIPELINE = re.compile(r"\bpipeline\(\s*[\"']|Pipeline\w*(\.from_\w+)?\(")

# A call of something whose last segment matches waits for the device (or for one stream or event).
WAIT_NAME = re.compile(
    r"(?<!a)sync(hronize)?(?=$|_|s?\b|[A-Z0-9]|hronized?)|synchroni[sz]e|^block_until_ready$"
    r"|^wait_device_ops$|^wait_for_everyone$|^barrier$|^rendezvous$|^device_barrier$"
    r"|^complete_\w*ops?$|^wait_(?!stream|event|until|time|list|queue|s$|ms$)\w+$"
    r"|^effects_barrier$|^wait_event_complete$|^waitall$|^wait_until_finished$|^flush_and_wait$",
)
NO_WAIT_NAME = re.compile(
    r"async(?!hronous_wait)|wait_stream$|wait_event$|^set_sync|sync_?batch|no_(\w+_)?sync|^sync_dist"
    r"|syncwarp|syncthreads|syncbn|sync_debug|should_sync|needs_sync|is_sync|sync_grad|grad(ient)?s?_sync$|_cpu_sync$"
    r"|InitializeSync|sync_(\w+_)?(weight|param(eter)?|module_state|buffer|checkpoint)s?(_|$)",
    re.IGNORECASE,
)
# Waits for a task, a request or a handle: offload_try_wait(), onboard_wait(handle).
JOIN_NAME = re.compile(r"^(?!(no|dont|without|stream|event|set|is|needs?|should)_)\w+(?<!no)_wait$")
PYTHON_WAITS = {"mlx.core.eval", "mx.eval", "mlx.core.synchronize", "jax.block_until_ready"}
# Reads that return a value to the host, and so wait for it.
READ_NAMES = frozenset(
    "item cpu numpy tolist asnumpy copy_to_host device_get to_py to_dlpack_host get_scale"
    " copy_to_cpu to_host allclose equal is_close nonzero isnan_any to_python_float assert_close"
    " assert_allclose assert_equal unique masked_select"
    # How many boxes are left is known on the host only when the device has counted them.
    " nms batched_nms soft_nms multiclass_nms non_max_suppression".split()
)
# Work that is complete when the call returns.
BLOCKING_NAMES = frozenset(
    "generate execute_v2 execute run_with_iobinding infer chat predict_on_batch"
    " batch_decode RunNet RunNetOnce RunPlan".split()
)
# Decorators of Numba that make a function of arrays which runs on the device.
CUDA_UFUNC = re.compile(r"vectorize\s*\((.|\n)*target\s*=\s*[\"']cuda")
# Benchmark helpers that warm up, wait and time by themselves.
HARNESS = re.compile(
    r"(^|[._])(do_bench\w*|blocked_autorange|adaptive_autorange|bench_gpu_time\w*|bench_kineto"
    r"|time_fwd|benchmark_forward|benchmark_backward|benchmark_combined|benchmark_fwd_bwd"
    r"|benchmark_all|perf_report|cupti_\w+|run_measurement)$"
)

COLLECTIVE = re.compile(
    r"(^|[._])(all_reduce|all_gather\w*|reduce_scatter\w*|all_to_all\w*|allreduce|allgather"
    r"|broadcast|broadcast_coalesced|_all_gather_base|_reduce_scatter_base|reduce|gather|scatter"
    r"|batch_isend_irecv|isend|irecv|send|recv)$"
)
OBJECT_COLLECTIVE = re.compile(r"^(all_)?(gather|broadcast|scatter|send|recv)_object(_list|s)?$")
COLLECTIVE_CPP = re.compile(
    r"^(nccl|rccl)(AllReduce|AllGather|ReduceScatter|Broadcast|Bcast|Reduce|Send|Recv|GroupEnd)$"
)

FACTORY = re.compile(
    r"^(empty|zeros|ones|full|rand|randn|randint|randperm|arange|linspace|logspace|eye|tensor"
    r"|as_tensor|normal|uniform|bernoulli|empty_strided|standard_normal|random|array"
    r"|asarray)(_like)?$"
)
CLONES = frozenset({"clone", "deepcopy", "empty_like", "zeros_like", "ones_like", "rand_like",
                    "randn_like", "full_like", "new_empty", "new_zeros", "new_ones", "new_full",
                    "new_tensor", "pin_memory", "device_array", "device_array_like"})  # fmt: skip

# Names that compute on whatever device their operands are.
# Modules whose functions queue work and return.
ARRAY_MODULES = (
    "torch.", "cupy.", "jax.", "mlx.", "triton.", "F.", "jnp.", "cp.", "nn.", "numba.",
    "flash_attn", "cutlass.", "cute.", "xformers.", "apex.", "transformer_engine", "te.",
    "cuvs.", "pylibraft.", "cuml.",
)  # fmt: skip
MODEL = re.compile(
    r"(^|\.)_?(\w*model\w*|\w*net|network|nn_module|module|unet\w*|vae|\w*encoder\w*|\w*decoder\w*"
    r"|\w*transformer|llm|policy|actor|critic|generator|discriminator|backbone|detector"
    r"|classifier|resnet\w*|bert|vit\w*|gpt\w*|layer\w*|block|head|criterion|\w*loss_fn"
    r"|\w*loss_func"
    r"|pipe|pipeline|forward\w*|\w*_forward|fwd|bwd|\w*backward|\w*attn\w*"
    r"|\w*attention\w*|\w*gemm\w*"
    r"|\w*matmul\w*|\w*kernel\w*|mlp\w*|conv(?!er[ts])\w*|lstm|gru|rnn|linear\w*|compiled\w*"
    r"|opt_model|train_step"
    r"|training_step|step_fn|inference|infer|\w*softmax\w*|\w*norm|\w*_triton|triton_\w+|\w*_cuda"
    r"|cuda_\w+|\w*moe\w*|decode|prefill|denoise|engine|sampler|update_params|sdpa|mha"
    r"|graphed\w*)$",
    re.IGNORECASE,
)
# What is called that executes more than one operator.
WHOLE_MODEL = re.compile(
    r"(^|[._])(\w*model\w*|\w*net|network|engine|pipe\w*|module|forward|generate"
    r"|\w*encoder|\w*decoder|step)$"
)
NOT_MODEL = re.compile(
    r"(^|[._])(load\w*|get_\w+|build\w*|create\w*|make\w*|init\w*|from_pretrained|save\w*|parse\w*"
    r"|print\w*|log\w*|set_\w+|register\w*|is_\w+|has_\w+|add_\w+|check\w*|download\w*|count\w*"
    r"|summary|eval|train|parameters|named_\w+|state_dict|modules|children"
    r"|requires_grad_|half|float"
    r"|bfloat16|cuda|to|cpu|config\w*|tokenizer\w*|\w*tokenize\w*|encode|compile"
    r"|compile_\w+|layer_name\w*"
    r"|eval\w*|valid\w*|test\w*|zero_grad|close|Linear|Conv\w+|\w*LayerNorm|prepare\w*"
    r"|warmup_\w+|append|extend|_?(format|render|describe|summari[sz]e|write|read|plot|draw|dump)(_\w+)?"
    r"|\w*Config|cleanup\w*|free_\w+|release\w*|reset\w*|run_opt\w*|\w*_name|\w*_size"
    r"|\w*_info|\w*DataLoader|\w*Dataset|super|(un)?wrap_\w+|\w+_(from|of)_model"
    # What estimates on the host how long a kernel takes.
    r"|(perf|cost|time|timing|latency|roofline|analytical)_model)$"
)
TENSOR_VERBS = frozenset(
    "backward matmul mm bmm addmm baddbmm einsum softmax log_softmax relu gelu silu sigmoid tanh"
    " layer_norm group_norm batch_norm scaled_dot_product_attention conv1d conv2d conv3d linear"
    " cross_entropy embedding interpolate argmax argmin topk sort cumsum scatter"
    " scatter_add gather"
    " index_select masked_fill where cat stack norm square exp log sin cos pow sqrt rsqrt"
    " sum mean"
    " std var max min prod clamp add mul sub div dot outer histc bincount bucketize roll flip"
    " replay unscale_ copy_ fill_ zero_ normal_ uniform_ random_ clip_grad_norm_ fft ifft".split()
)
# Methods whose names say that they look after an object; set_() and add_() of tensors do not.
HOUSEKEEPING = re.compile(
    r"^(set|get|reset|update|register|add|remove|enable|disable|load|save|is|has|next|list|find"
    r"|export|configure|log|count|close|release|alloc|allocate|start|stop)_(?!params$)\w*[a-z0-9]$"
    r"|^(decrement|increment|manual_seed|num(ber_of)?_\w+|setup_\w+|start|stop|shutdown)$"
)
MAKES_DATA = re.compile(
    r"^(get|load|build|create|make|prepare)_\w*(loader|dataset|tokenizer|config|args|info)s?$"
)
# Methods that tell of an object in numbers and texts of the host, be it a model on the device.
TELLS_OF_OBJECT = re.compile(
    r"^(get|collect|report|describe)_(\w+_)?(info|stats|statistics|config|summary|metadata|usage"
    r"|footprint)$"
)
HOST_VERB = re.compile(
    r"(^|[._])(load|save|build|create|parse|print|log|register|download|deserialize|serialize|open"
    r"|plan|read|write|summarize|describe|dump|connect|fetch)(_\w+)?$"
)
# What makes numbers of a text, on the host.
TOKENIZER = re.compile(r"(^|[._])tokenizer$")
# Objects whose decode() and encode() run on the device; those of tokenizers and codecs do not.
CODEC_ON_DEVICE = re.compile(
    r"(^|[._])(\w*model\w*|\w*net|vae|\w*runner|pipe\w*|engine|self|llm)$", re.IGNORECASE
)
HOST_METHODS = frozenset(
    "size numel dim element_size stride data_ptr parameters named_parameters state_dict"
    " eval train"
    " is_contiguous view reshape permute transpose unsqueeze squeeze expand detach flatten chunk"
    " split narrow unbind t requires_grad_ record_stream named_children children modules apply"
    " register_forward_hook register_forward_pre_hook append extend keys values items get_device"
    " ndimension nelement is_cuda type dtype untyped_storage retain_grad storage zero_grad"
    " to cuda"
    " cpu half float bfloat16 contiguous query set_device load_state_dict compile buffers"
    " update put add"
    " unfold movedim moveaxis swapaxes swapdims diagonal unflatten as_strided broadcast_to adjoint"
    " hsplit vsplit dsplit tensor_split view_as_real view_as_complex"
    " expand_as view_as reshape_as insert push setdefault pop remove index count log get"
    " copy set register write send collect enumerate plan".split()
)
HOST_MODULES = frozenset(
    "os sys json math random re subprocess requests pickle logging time datetime collections"
    " itertools functools argparse pathlib shutil cv2 PIL pandas matplotlib sklearn csv"
    " glob string"
    " copy io hashlib threading queue asyncio aiohttp httpx socket yaml platform psutil"
    " tqdm numpy"
    " scipy statistics contextlib typing warnings traceback inspect gc tempfile"
    " transformers_utils"
    " torchvision.io tokenizers sentencepiece tiktoken uuid signal multiprocessing wandb gzip"
    " zipfile urllib pynvml click rich tabulate imageio soundfile h5py skimage moviepy".split()
)
HOST_CALLS = frozenset(
    "print len range enumerate zip list dict set tuple str repr sorted min max sum abs round any"
    " all isinstance issubclass hasattr getattr setattr open iter next map filter reversed type"
    " input format super vars id hash divmod callable exit quit int float bool bytes ord chr"
    " property staticmethod classmethod print_ratio object slice memoryview dir globals locals"
    " ValueError RuntimeError TypeError KeyError Exception AssertionError"
    " NotImplementedError".split()
)

IO_CALLS = frozenset({"print", "printf", "fprintf", "puts", "putchar", "fputs", "fwrite", "fflush"})
# The same of Python packages, by their full names.
IO_FUNCTIONS = frozenset(
    {"click.echo", "click.secho", "typer.echo", "typer.secho", "rich.print", "tqdm.tqdm.write"}
)
IO_METHODS = frozenset(
    "print info debug warning warn error critical write set_postfix set_description set_postfix_str"
    " log log_metrics savefig save export_chrome_trace"
    " writerow writelines flush dump to_csv imwrite imshow".split()
)
IO_OBJECTS = re.compile(
    r"(^|[._])(log|logger|logging|_logger|LOG|LOGGER|writer|tb|tb_writer|wandb|mlflow|pbar|bar"
    r"|progress\w*|tqdm|fh?|file|out_file|log_file|fp|stdout|stderr|sys|console|plt|json"
    r"|pickle|torch|fabric|accelerator"
    r"|np|csv_writer|prof|profiler|summary_writer|neptune|swanlab|self\.logger|cv2|image|img)$"
)

COMPILERS = re.compile(
    r"(^|[._])(torch\.compile|cute\.compile|torch\.jit\.(trace|script)|trace_module"
    r"|torch\.export\.export|torch\.onnx\.(dynamo_)?export"
    r"|torch_tensorrt\.compile|load_inline|cpp_extension\.load|RawModule|tilelang\.compile"
    r"|triton\.compile|build_serialized_network|build_engine|deserialize_cuda_engine"
    r"|make_graphed_callables|aot_compile|jax\.jit|compile_ptx|optimize_for_inference)$"
)
COMPILERS_CPP = re.compile(
    r"(^|::)((cuda|hip)GraphInstantiate\w*|cu(da)?ModuleLoad\w*|(cu|hip)ModuleLoad\w*"
    r"|(cu|nv|hip)rtcCompileProgram"
    r"|nvrtcCompileProgram|cuLinkComplete|cudaLibraryLoad\w*|cudnnFind\w+Algorithm\w*"
    r"|buildSerializedNetwork)$"
)

INTENT_NOT_GPU = re.compile(
    # "Grouped launch" is how a kernel is scheduled.
    r"(?<!grouped[ _])(?<!cooperative[ _])(?<!persistent[ _])launch"
    r"|enqueue|dispatch|(?<![a-z])host(?!name)|(?<![a-z])cpu(_?time\w*)?(?![a-z])|overhead"
    r"|submit|compil|(?<![a-z])code[ _-]?gen|(?<![a-z])load(?!er)"
    r"|(?<![a-z])loading|setup|(?<![a-z])init(?![a-z])|initiali[sz]|(?<![a-z])build"
    r"|download|tokeni|(?<![a-z])data_?time|(?<![a-z])io_?time|preprocess|pre_process"
    r"|conver(t|ting|sion)\W+(\w+\W+){0,2}(model|checkpoint|weights|ckpt)"
    r"|convert_\w*(model|checkpoint|weights|ckpt)"
    r"|paralleli[sz]e|(?<![a-z])(shard(ed|ing)|creat(ed|ing)|maintenance)(?![a-z])"
    r"|queue|issue_|(?<![a-z])trac(e_?time|ing)|jit_?time|(?<![a-z])import(?!an)|capture"
    r"|(?<![a-z])(write|save|disk|ckpt|checkpoint)(?![a-z])|opt_pass|(?<![a-z])pars(e|ing)"
    r"|prepare|warm_?up|deadline|timeout|(?<![a-z])eta(?![a-z])",
    re.IGNORECASE,
)

# What shows that a file computes on a device: words that mean nothing else, also in literal texts,
# and words that count in code only, since in texts they speak of other things.
DEVICE_EVIDENCE = {
    "python": re.compile(
        r"\bcuda\b|['\"]mps\b|torch\.(mps|xpu|hpu|npu|accelerator)|['\"](xpu|hpu|npu|hip)\b"
        r"|\brocm\b|tensorrt|torch2trt|TRTModule"
        r"|(CUDA|Tensorrt|ROCM|MIGraphX)ExecutionProvider|\b(ti|taichi)\.(gpu|vulkan|metal)\b"
    ),
    "cuda": re.compile(r"<<<"),
}
DEVICE_EVIDENCE_IN_CODE = {
    "python": re.compile(
        # Not executorch.backends.mlx, which is a package of another library.
        r"(?<![\w.])(cupyx?|jax|triton|mlx|cutlass|tilelang|deepspeed|flash_attn\w*|warp|flashinfer"
        r"|accelerate|transformer_engine|xformers|pycuda|cudf|cuml)\b"
        # An engine for language models, which runs on a device.
        r"|from vllm import[^\n]*\bLLM\b|\bvllm\.LLM\(|from sglang import|\bsgl\.Engine\("
        r"|from lmdeploy import|from tensorrt_llm import"
    ),
    "cuda": re.compile(
        r"\b(hip|cu)[A-Z]\w+\s*\(|(?i:cuda|\bhip_|cublas|cudnn|nvtx|tensorrt|\btorch(::|/)|thrust)"
        r"|\b(cu|hip|roc)(sparse|solver|fft|rand|blas)(_\w+|[A-Z]\w*)\s*(<\w+>\s*)?\(|\bmiopen[A-Z]"
    ),
}
# Libraries that train wherever they are told to.
TRAINS_ANYWHERE = re.compile(r"(?<![\w.])(deepspeed|accelerate)\b")
# "gpu" counts beside a library that computes on one.
DEVICE_TEXT = re.compile(r"['\"]gpu\b|['\"]/?(device:)?GPU(:\d)?['\"]")
# `device` alone may be a disk or a lamp: it counts beside a library that computes on devices.
DEVICE_VARIABLE = re.compile(r"\bdevice\b")
DEVICE_LIBRARY = re.compile(r"torch|tensor|paddle|mxnet|mindspore|oneflow|onnx|keras|numba|opencl")

# CUDA and HIP runtime: last segment without the vendor's prefix.
# The last three are the prefixes of projects' own layers over CUDA and HIP.
CPP_VENDOR = re.compile(r"^(cuda|hip|cu|mu|musa|gpu|hc|dev)(?=[A-Z])")
CPP_ANY_WAIT = re.compile(r"([dD]evice|[sS]tream|[eE]vent|Thread|Queue)_?[sS]ynchronize$")
# A wait that is named, and not called: a macro calls it.
CPP_WAIT_FUNCTION = re.compile(r"(cuda|hip|cu)(Device|Ctx|Thread)Synchronize")
# Methods of other files that bring a buffer back: the host may read it when they return.
COPY_TO_HOST = re.compile(
    r"^(copy|transfer|move|sync|download|read)_?(from_?(device|gpu))?_?(to|2)_?(host|cpu)$"
    r"|^(d|dev|device|gpu)_?(to|2)_?(h|host|cpu)$|^host_?copy$",
    re.IGNORECASE,
)
# What shows a picture that the device has drawn.
SHOWS_FRAME = re.compile(r"(^|[a-z_])Swap(Buffers|Window)$")
# What sets up a library of the device: a handle, a context, a generator or a plan.
CPP_SETS_UP = re.compile(
    r"^(cublas(Lt)?Create|hipblasCreate|rocblas_create_handle|cudnnCreate|miopenCreate"
    r"|(cu|hip)sparseCreate|(cu|hip)solver(Dn|Sp|Rf|Mg)?Create|(cu|hip)randCreateGenerator"
    r"|(cu|hip)fft(Make)?Plan\w+|cutensorCreate|ncclCommInit(Rank|All))(_v2)?$"
)
# What C++ has for the host.
CPP_HOST = re.compile(
    r"(std::|f?(abs|min|max)$|(sqrt|exp|log|pow|sin|cos|floor|ceil|round)f?$|swap$"
    r"|(v?s?n?f?printf|puts|[mc]alloc|free|mem(cpy|set|move|cmp)|assert|sizeof)$)"
)
# What works on memory of the host, whatever the names of its pointers say.
CPP_HOST_MEMORY = re.compile(
    r"^(static_)?assert$|^HIP_SYMBOL$|^(std::)?(mem(cpy|set|move|cmp)|free)$"
)
# Names that are assigned memory of the host: d_x = new float[n], d_x = (float*)malloc(n).
CPP_ON_HOST = re.compile(
    r"\b((?:d|dev|gpu)_\w+)\s*=\s*(?:\([\w\s*:]+\)\s*|(?:static|reinterpret)_cast<[^<>;]*>\(\s*)?"
    r"(?:std::)?(?:new\b|[mc]alloc\s*\(|realloc\s*\(|aligned_alloc\s*\(|make_unique\b)"
)
# What is left of the runtime's names once work, copies, waits and allocations are told apart.
CPP_HOUSEKEEPING = re.compile(
    r"^(cuda|hip)(Stream|Event|Device|Graph|Mem|Free|Get|Set|Func|Host|Create|Destroy|Bind|Unbind"
    r"|Pointer|Array|Texture|Peek|Profiler|Occupancy|Driver|Runtime)"
)
# A file that uses the runtime or one of its libraries, or launches.
CPP_RUNTIME = re.compile(r"<<<|\b(cuda|hip|cu|cublas|cudnn|nccl|nvrtc)[A-Z]\w+\s*\(|Kernel\w*\(")
# What an argument asks a buffer for instead of passing it on.
CPP_ABOUT = re.compile(r"(\.|->)(sizes?|shape|dims?|dtype|scalar_type|numel|strides?|nbytes)\(\)$")
# What a call of another file in a measured region is by its name, where it is not the work.
CPP_OTHER = re.compile(
    r"^(get|set|is|has|to|as|make|create|destroy|init|alloc|free|load|save|read|write|open|close"
    r"|print|log|check|verify|validate|compare|assert|expect|ensure|reset|resize|reserve|push|pop"
    r"|insert|emplace|append|clear|swap|fill|rand|shuffle|sort|min|max|abs|sqrt|exp|pow|usleep|sleep"
    r"|wait|record|start|stop|begin|end|tic|toc|timer?|clock|report|update_?progress|do_not_optimize"
    r"|benchmark|escape|clobber|flush|parse|dim3|MPI|omp|mem)(?-i:(?![a-z]))"
    r"|error|status|handle|descriptor|sync|barrier|profil|nvtx|range|print|info|warn|debug|message"
    r"|(?-i:[lL]og|LOG)(?-i:(?![a-z]))",
    re.IGNORECASE,
)
# Of those, what works on data: on the device where a stream is handed over with it.
CPP_ON_DATA = re.compile(
    r"(insert|append|fill|sort|shuffle|min|max|abs|sqrt|exp|pow|compare|load|save|read|write|push"
    r"|pop|rand)(?-i:(?![a-z]))",
    re.IGNORECASE,
)
# Methods that queue work where they are given a stream or an executor, and how those are declared.
CPP_SUBMITS = re.compile(r"^(run|launch|execute|enqueue|forward|infer)$")
CPP_QUEUE = re.compile(
    r"\b(?:cudaStream_t|hipStream_t|CUstream|(?:\w+::)*(?:cudaExecutor|stream_ref|cuda_stream\w*))"
    r"\s*[&*]?\s*(\w+)"
)
# Methods of CUDASTF that return a task, whose body follows behind ->*.
CPP_TASK = re.compile(r"^(launch|parallel_for|task|cuda_kernel|cuda_kernel_chain)$")
CPP_WAITS = frozenset(
    "DeviceSynchronize StreamSynchronize EventSynchronize ThreadSynchronize CtxSynchronize Free"
    " DeviceReset StreamSynchronize_ptsz HostSynchronize MemPrefetchSynchronize".split()
)
CPP_BLOCKING = frozenset(
    "Memcpy Memcpy2D Memcpy3D MemcpyFromSymbol MemcpyToSymbol MemcpyDtoH MemcpyHtoD"
    " MemcpyDtoH_v2 MemcpyHtoD_v2 MemcpyToArray MemcpyFromArray Memcpy2DToArray"
    " Memcpy2DFromArray".split()
)
CPP_ASYNC = frozenset(
    "MemcpyAsync Memcpy2DAsync Memcpy3DAsync MemsetAsync Memset Memset2D GraphLaunch LaunchKernel"
    " LaunchCooperativeKernel LaunchKernelEx LaunchKernelExC ModuleLaunchKernel LaunchKernelGGL"
    " MemcpyPeerAsync MemcpyFromSymbolAsync MemcpyToSymbolAsync MemcpyDtoHAsync MemcpyHtoDAsync"
    " MemcpyDtoDAsync MemPrefetchAsync Launch LaunchCooperativeKernelMultiDevice MemcpyPeer"
    " MemcpyDtoD Memcpy3DPeerAsync Memset3D Memset3DAsync Memset2DAsync MemsetD8 MemsetD16"
    " MemsetD32 MemsetD8Async MemsetD16Async MemsetD32Async Memcpy2DToArrayAsync"
    " Memcpy2DFromArrayAsync MemcpyToArrayAsync MemcpyFromArrayAsync MemcpyBatchAsync".split()
)
CPP_ALLOC = frozenset(
    "Malloc MallocManaged MallocHost HostAlloc MallocPitch Malloc3D MallocArray MemAlloc"
    " MallocAsync MemAllocHost MemAllocManaged MemCreate HostRegister MallocFromPoolAsync".split()
)
# What runs the algorithms of a library one by one, each with a wait, to find the fastest.
CPP_TRIES_OUT = re.compile(r"^(cudnn|miopen)Find\w+$")
# The libraries' functions: those that set and get attributes and plan give the device nothing.
CPP_LIBRARY = re.compile(
    r"^(cublas|hipblas|rocblas|cusparse|hipsparse|cusolver|cufft|hipfft|cudnn|miopen|cutensor)"
    r"\w*(Create|Destroy|Set[A-Z]|Get[A-Z]|Attribute|Heuristic|BufferSize|Plan)\w*$"
)
# What returns before the device has done it, by the documentation of each library.
CPP_LIBRARY_WORK = re.compile(
    r"^(cublas|cublasLt|hipblas|hipblasLt|rocblas|cusparse|hipsparse|rocsparse|cusolver\w*"
    r"|hipsolver\w*|rocsolver|cufft|hipfft|rocfft|cudnn|miopen"
    r"|curand|hiprand|rocrand|cutensor|nppi|npps)(?!\w*(Create|Destroy|Set|Get|Handle|Init"
    r"|Plan|Workspace|Version|Free|[bB]uffer_?Size|(?<!Exec)Descr|Find|Estimate|_create|_destroy|_set_|_get_"
    r"|_size))\w*"
    r"(gemm|Gemm|Matmul|GEMM|gemv|axpy|dot|scal|[eE]xec\w*|Forward|Backward|[gG]enerate"
    r"|Convolution\w*|SpMM|SpMV|SpSV_|SpSM_|SpGEMM\w*_|SDDMM|spmv|spmm|csrmv|csrmm|Contract"
    r"|Elementwise|Permut|Reduc|Softmax|Filter|symm|syrk|syr2k|herk|her2k|hemm|trsm|trmm|geam"
    r"|dgmm|symv|hemv|trmv|trsv|ger[uc]?(?=Batched|Strided|$)|syr|her|getr[fis]|potr[fsi]|geqrf"
    r"|[ou][rn]mqr|[ou][rn]gqr|syev|heev|gesv|sytrf|gels|matinv|AddTensor"
    r"|OpTensor|ScaleTensor|TransformTensor|Activation|Pooling|BatchNorm\w*|Dropout|Im2Col"
    r"|_C[134]I?R|_AC4I?R)\w*$"
)
# The rest that the sparse libraries compute: direct and iterative solvers, factorizations,
# conversions and sorts are queued; what analyses a matrix or iterates looks at the device between.
_SPARSE = (
    r"^(cusparse|hipsparse|rocsparse)_?(?!\w*(buffer_?size|zero_?pivot|host_|_[gs]et_|[gs]et[A-Z]"
    r"|create|destroy|_clear|_info|_history|stage))\w*?"
)
CPP_SPARSE_WORK = re.compile(
    _SPARSE + r"((csr|bsr)(ilu0?2?|ic0?2?)|(csr|bsr)s[vm]_?2?_?solve|(ge)?(bsr|coo|ell|hyb)x?m[mv]"
    r"|gtsv|gpsv|gthr|sctr|[gG]ather|[sS]catter|[aA]xpby|[rR]oti?|(coo|csr|csc)_?sort"
    r"|(csr|csc|coo|ell|hyb|gebsr|bsr|dense)2(csr|csc|coo|ell|hyb|gebsr|bsr|dense)"
    r"|sparse_to_dense|dense_to_sparse|SparseToDense|DenseToSparse)"
    r"(z|_?ex2?|v2|2?_?(strided_?)?[bB]atch|2?_no_?pivot|_interleaved_batch|_compute|_convert)?$"
)
CPP_SPARSE_ITERATES = re.compile(
    _SPARSE + r"(_?([aA]nalysis|[pP]reprocess)|spvv|SpVV|spitsv|spgemm|sp[sm][vm]|sddmm|nnz"
    r"|csrit(sv_solve|sv|ilu0x?_compute|ilu0x?)|csrcolor)$"
)
# What returns a number to the host, and so waits, unless the number is to stay on the device.
CPP_LIBRARY_VALUE = re.compile(
    r"^(cublas|hipblas)(I?[SDCZ]+|Dot\w*|Nrm2)(dot[uc]?|nrm2|asum|amax|amin|Ex)(_v2|_64)*$"
)
# To destroy a handle of cuBLAS waits for the device.
CPP_LIBRARY_WAITS = re.compile(r"^(cu|hip)blasDestroy(_v2)?$")
# cuBLASXt takes matrices of the host and returns when the result is there.
CPP_LIBRARY_ON_HOST = re.compile(r"^cublasXt[SDCZ]\w*(gemm|symm|syrk|herk|trsm|trmm|spmm)\w*$")
# Variables that are assigned, or declared as, memory of the host that is not pinned.
CPP_PAGEABLE = re.compile(
    r"\b(\w+)\s*=\s*(?:\([^()]*\)|(?:static|reinterpret)_cast<[^<>]*>\s*\()?\s*"
    r"(?:(?:std::)?[mc]alloc\s*\(|new\s+[\w:]+\s*\[)"
    r"|\bstd::vector\s*<[^;{}()]*>[\s&]+(\w+)"
)
CPP_PINS = re.compile(r"(HostAlloc|MallocHost|HostMalloc|HostRegister|MallocManaged)$")
# Copies between host and device, which are done when the call returns.
CPP_LIBRARY_COPY = re.compile(r"^(cu|hip)blas(Set|Get)(Vector|Matrix)(?!\w*Async)")
CPP_LIBRARY_COPY_ASYNC = re.compile(r"^(cu|hip)blas(Set|Get)(Vector|Matrix)\w*Async$")
# Algorithms of CUB and its like, on the stream that they are given.
CPP_CUB = re.compile(r"^(hip)?cub::Device\w+(<.*>)?::\w+|^rocprim::(?!make_)\w+$")
# What Thrust has beside algorithms: iterators, casts, functors and places.
CPP_THRUST_TOOLS = re.compile(
    r"::(make_\w+|\w+_pointer_cast|get|tie|plus|minus|multiplies|divides|modulus|negate|maximum"
    r"|minimum|identity|less|less_equal|greater|greater_equal|equal_to|not_equal_to|logical_\w+"
    r"|bit_\w+|project\w+|square|\w+_iterator|device_ptr|pair|tuple|complex|distance|advance"
    r"|next|prev|default_random_engine|minstd_rand\w*|\w+_distribution|on|par|par_nosync|seq|device"
    r"|host|retag|reinterpret_pointer_cast)$"
)
# Algorithms of Thrust that return what they have computed, and so wait under any policy.
CPP_THRUST_VALUE = re.compile(
    r"::(reduce|transform_reduce|inner_product|count(_if)?|find(_if(_not)?)?|\w+_element|equal"
    r"|mismatch|(all|any|none)_of|is_\w+|copy_if|remove\w*|unique\w*|partition\w*"
    r"|stable_partition\w*|set_\w+|reduce_by_key|lower_bound|upper_bound|binary_search)$"
)
_GOOGLE_LOOP = re.compile(r":\s*\*?\s*\w*[sS]tate\s*\)|\w*[sS]tate\w*(\.|->)KeepRunning")
_OF_A_STATE = re.compile(r":\s*\*?\s*(\w+)\s*\)\s*$|\b(\w+)(?:\.|->)KeepRunning")


def is_google_loop(header: str, text: str) -> bool:
    """Whether the header of a loop is that of a measured loop of Google Benchmark, in that text."""
    if _GOOGLE_LOOP.search(header):
        return True
    found = _OF_A_STATE.search(header) if "benchmark::State" in text else None
    name = (found[1] or found[2]) if found else ""
    return bool(name) and re.search(rf"\bbenchmark::State\s*[&*]\s*{name}\b", text) is not None


# Frameworks whose calls return at times that are not known here, and the graphs of TensorFlow 1.
_FOREIGN = re.compile(r"^\s*(import|from)\s+(keras|mxnet|tinygrad)\b", re.MULTILINE)
_TENSORFLOW = re.compile(r"^\s*(import|from)\s+tensorflow\b", re.MULTILINE)
_GRAPH_MODE = re.compile(
    r"Session\(|placeholder\(|disable_(eager|v2)|compat\.v1\b|contrib\b|tf\.app\b|\.estimator\b"
)


def is_foreign(code: str) -> bool:
    """Whether it is not known of a Python file when what it calls returns.

    TensorFlow 2 runs eagerly, and like PyTorch returns while the device still computes (see
    tf.test.experimental.sync_devices).
    """
    if _TENSORFLOW.search(code):
        return _GRAPH_MODE.search(code) is not None
    return _FOREIGN.search(code) is not None


# Functions of TensorFlow and Paddle that give the device work, by their full names.
EAGER = re.compile(
    r"tensorflow\.((math|linalg|nn|signal)\.[a-z]\w*|matmul|einsum|tensordot|reduce_\w+|add|multiply"
    r"|subtract|divide|square|sqrt|exp|tanh|sigmoid|cumsum|sort|argsort)"
    r"|paddle\.(nn\.functional\.|linalg\.|fft\.|incubate\.nn\.functional\.)[a-z]\w*"
    r"|paddle\.(matmul|mm|bmm|add|multiply|subtract|divide|einsum|dot|sum|mean|max|min|exp|tanh|sqrt"
    r"|square|abs|sin|cos|concat|stack|split|gather|scatter|transpose|topk|sort|argsort|cumsum|where"
    r"|clip|pow|rsqrt|tril|triu|nonzero|logsumexp|cast|assign)"
)
# Methods of a model of Keras that return numbers of the host.
KERAS_BLOCKING = frozenset(
    "predict fit evaluate predict_on_batch train_on_batch test_on_batch".split()
)
# What a file speaks of whose kernels are compiled when they are first called.
JITS = re.compile(
    r"\b(triton|numba|taichi|jax|tilelang)\b|\bSourceModule\(|torch\.compile|cute\.compile"
)
# What rates are called.
RATES = re.compile(
    r"_per_s|per_?sec|throughput|speed|(^|_)(ips|fps|tps|qps|tput|rates?)(_|$)", re.IGNORECASE
)
# What calls are called that print, or write to a log.
OUTPUT = re.compile(r"(print|log|info|debug|warn|echo)\w*$")
