// Asks the system to forget what it keeps of files in memory, and says how many bytes of them it keeps all the same: those that
// somebody has mapped. Run as `forget FILE…`; Linux, where posix_fadvise does that and mincore shows it.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static long kept(int file, long bytes) {
  long page = sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page, count = 0;
  void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
  unsigned char *resident = malloc(pages);
  if (map == MAP_FAILED || !resident || mincore(map, bytes, resident)) return bytes;
  for (long i = 0; i < pages; i++) count += resident[i] & 1;
  munmap(map, bytes);
  free(resident);
  return count * page;
}

int main(int count, char **names) {
  long bytes = 0;
  for (int i = 1; i < count; i++) {
    struct stat status;
    int file = open(names[i], O_RDONLY);
    if (file < 0 || fstat(file, &status)) return perror(names[i]), 1;
    if (status.st_size > 0) {
      fdatasync(file); // what is still to be written is not forgotten
      posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
      bytes += kept(file, status.st_size);
    }
    close(file);
  }
  printf("%ld\n", bytes);
  return 0;
}
