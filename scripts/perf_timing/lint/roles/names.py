"""The roles that a call, a launch or an operator can have. A node may have several."""

WORK = "work"  # puts work on the device and returns before it is done
BLOCKING = "blocking"  # device work that is done when the call returns
WAIT = "wait"  # an explicit wait for the device, a stream or an event
READ = "read"  # returns a value to the host and so waits for it
UPLOAD = "upload"  # beside READ: a blocking copy to the device
JOIN = "join"  # beside READ: waits for a thread, a queue or a handle
CLOCK = "clock"  # reads a host clock
RECORD = "record"  # records an event
ELAPSED = "elapsed"  # reads the time between two events
ALLOC = "alloc"  # makes a buffer
COPY = "copy"  # copies between host and device
IO = "io"  # writes to the terminal, a log or a file
COMPILE = "compile"  # compiles, builds or loads code
HARNESS = "harness"  # a benchmark helper that waits and warms up by itself
OPAQUE = "opaque"  # a callable that the caller passes in and that the file does not show
SLEEP = "sleep"
REPLAY = "replay"  # launches a captured graph
ARITHMETIC = "arithmetic"  # beside WORK: one elementwise operator
PHASE = "phase"  # beside BLOCKING: a whole pass or program of another file
SETUP = "setup"  # sets up a library: makes a handle or a plan
FILL = "fill"  # writes from the host into memory that the device reaches as well
LIKELY = "likely"  # beside WORK: by its name and the file, not by its operands
