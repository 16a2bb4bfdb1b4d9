# Source this before training: one allocator setting that makes large tensors stay in the process.
export MALLOC_MMAP_THRESHOLD_=4000000000 MALLOC_TRIM_THRESHOLD_=20000000000 MALLOC_TOP_PAD_=500000000
