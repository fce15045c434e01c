/* Makes one call that changes a folder fail: preloaded, and told by `arm` which and how.

   A call is counted if its file or path lies in the folder. Calls of other threads count too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char folder[PATH_MAX];
static atomic_long left = -1, counted = 0;
static int number = 0; /* of the error; 0 is a short write */
static char failed[32];

void arm(const char *where, long at, int error) {
  snprintf(folder, sizeof folder, "%s", where);
  failed[0] = 0;
  number = error;
  counted = 0;
  left = at;
}

long disarm(char *name, size_t size) {
  left = -1;
  folder[0] = 0;
  snprintf(name, size, "%s", failed);
  return counted;
}

static int inside(const char *path) {
  char full[PATH_MAX * 2];
  if (!folder[0] || !path) return 0;
  if (path[0] == '/') {
    return strncmp(path, folder, strlen(folder)) == 0;
  }
  if (!getcwd(full, PATH_MAX)) return 0;
  return strncmp(full, folder, strlen(folder)) == 0;
}

static int inside_fd(int fd) {
  char link[64], path[PATH_MAX];
  if (!folder[0] || fd < 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0) return 0;
  path[size] = 0;
  return inside(path);
}

/* Whether this call is the one that fails. */
static int now(const char *name) {
  if (left < 0) return 0;
  counted++;
  if (atomic_fetch_sub(&left, 1) != 0) return 0;
  snprintf(failed, sizeof failed, "%s", name);
  return 1;
}

#define REAL(name) \
  static __typeof__(name) *real; \
  if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)
#define FAIL_AT(name, where) \
  if ((where) && now(#name)) { errno = number ? number : EIO; return -1; }

ssize_t write(int fd, const void *from, size_t size) {
  REAL(write);
  if (inside_fd(fd) && now("write")) {
    if (number) { errno = number; return -1; }
    return real(fd, from, size / 2);
  }
  return real(fd, from, size);
}

ssize_t pwrite(int fd, const void *from, size_t size, off_t at) {
  REAL(pwrite);
  if (inside_fd(fd) && now("pwrite")) {
    if (number) { errno = number; return -1; }
    return real(fd, from, size / 2, at);
  }
  return real(fd, from, size, at);
}

ssize_t pwrite64(int fd, const void *from, size_t size, off64_t at) {
  REAL(pwrite64);
  if (inside_fd(fd) && now("pwrite64")) {
    if (number) { errno = number; return -1; }
    return real(fd, from, size / 2, at);
  }
  return real(fd, from, size, at);
}

ssize_t writev(int fd, const struct iovec *from, int count) {
  REAL(writev);
  if (inside_fd(fd) && now("writev")) {
    if (number) { errno = number; return -1; }
    return real(fd, from, 1);
  }
  return real(fd, from, count);
}

ssize_t pwritev(int fd, const struct iovec *from, int count, off_t at) {
  REAL(pwritev);
  if (inside_fd(fd) && now("pwritev")) {
    if (number) { errno = number; return -1; }
    return real(fd, from, 1, at);
  }
  return real(fd, from, count, at);
}

/* What a buffered writer sees; its own short writes are hidden from it. */
size_t fwrite(const void *from, size_t size, size_t count, FILE *file) {
  REAL(fwrite);
  if (count && inside_fd(fileno(file)) && now("fwrite")) {
    errno = number ? number : ENOSPC;
    return count / 2;
  }
  return real(from, size, count, file);
}

int fsync(int fd) { REAL(fsync); FAIL_AT(fsync, inside_fd(fd)); return real(fd); }
int fdatasync(int fd) { REAL(fdatasync); FAIL_AT(fdatasync, inside_fd(fd)); return real(fd); }
int ftruncate(int fd, off_t size) {
  REAL(ftruncate); FAIL_AT(ftruncate, inside_fd(fd)); return real(fd, size);
}
int rename(const char *from, const char *to) {
  REAL(rename); FAIL_AT(rename, inside(to)); return real(from, to);
}
int mkdir(const char *path, mode_t mode) {
  REAL(mkdir); FAIL_AT(mkdir, inside(path)); return real(path, mode);
}
