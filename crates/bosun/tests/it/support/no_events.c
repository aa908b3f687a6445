/* A machine whose file systems report no changes, for the process under test (LD_PRELOAD).
 *
 * BOSUN_FILE_EVENTS says how: `absent`, there are no watches at all; `refused`, no directory can be watched, as when the
 * limit of watches is reached; `silent`, directories are watched and no event arrives, as on a network file system.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is(const char *mode) {
    const char *set = getenv("BOSUN_FILE_EVENTS");
    return set && strcmp(set, mode) == 0;
}

int inotify_init1(int flags) {
    if (is("absent")) {
        errno = ENOSYS;
        return -1;
    }
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "inotify_init1");
    return real(flags);
}

int inotify_add_watch(int queue, const char *path, uint32_t mask) {
    static int watches;
    (void)queue, (void)mask;
    if (is("refused")) {
        errno = ENOSPC;
        return -1;
    }
    if (access(path, R_OK) != 0)
        return -1;
    return __sync_add_and_fetch(&watches, 1);
}

int inotify_rm_watch(int queue, int watch) {
    (void)queue, (void)watch;
    return 0;
}
