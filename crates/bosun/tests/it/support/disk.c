/* A disk that fails on demand, for the process under test (LD_PRELOAD).
 *
 * It intercepts the calls of a program on the files of one directory, BOSUN_DISK_ROOT, and of `blobs` in it, and
 * does two things.
 *
 * It fails: the page BOSUN_DISK_CONTROL says which calls, and counts them. A flush that fails behaves as on
 * Linux: its dirty pages count as clean from then on, and no later flush writes them.
 *
 * It records what a power cut would leave: BOSUN_DISK_SHADOW has a copy of each file as it is on stable
 * storage. A write reaches it when it is flushed; before that only by chance, as when the kernel happens
 * to write a page back. Renames reach it at once, as on a journaling file system for a file that is flushed.
 *
 * Not modelled: sectors that rot, flushes that lie, and writes that arrive at another place.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The control page; `disk.rs` has the same fields in the same order. */
struct control {
    volatile uint32_t fail_syncs;   /* this many flushes fail; all of them if it is UINT32_MAX */
    volatile uint32_t write_error;  /* writes fail with this error, if it is not 0 */
    volatile uint32_t stall_syncs;  /* flushes do not return while it is not 0 */
    volatile uint32_t failed_syncs; /* counted */
    volatile uint32_t failed_writes;
    volatile uint32_t syncs;
    volatile uint32_t stalled;
    volatile uint32_t full_after; /* the disk is full after this many more flushes, if it is not 0 */
};

/* A piece of a file that was written and not flushed. */
struct range {
    off_t from, to;
    struct range *next;
};

/* A file of the directory. */
struct file {
    dev_t device;
    ino_t inode;
    int shadow;
    char name[2 * NAME_MAX + 2];
    struct range *dirty;
    struct file *next;
};

static struct control *control;
static const char *root, *shadows;
static struct file *files;
static unsigned chance = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_write)(int, const void *, size_t);
static int (*real_ftruncate)(int, off_t);
static int (*real_rename)(const char *, const char *);
static int (*real_unlink)(const char *);

__attribute__((constructor)) static void begin(void) {
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_write = dlsym(RTLD_NEXT, "write");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
    root = getenv("BOSUN_DISK_ROOT");
    shadows = getenv("BOSUN_DISK_SHADOW");
    const char *page = getenv("BOSUN_DISK_CONTROL");
    int fd = page ? open(page, O_RDWR | O_CLOEXEC) : -1;
    void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!root || !shadows || mapped == MAP_FAILED) {
        fprintf(stderr, "the failing disk is not set up\n");
        abort();
    }
    control = mapped;
    chance = (unsigned)getpid();
}

/* The name of a path in the directory or in its `blobs`, or null. Indexes and locks are no data. */
static const char *name_in_root(const char *path) {
    size_t length = strlen(root);
    if (strncmp(path, root, length) != 0 || path[length] != '/') return NULL;
    const char *name = path + length + 1;
    const char *last = strncmp(name, "blobs/", 6) == 0 ? name + 6 : name;
    size_t end = strlen(last);
    if (strchr(last, '/') || end > NAME_MAX) return NULL;
    if ((end > 4 && strcmp(last + end - 4, "-shm") == 0) || strcmp(last, "bosun.lock") == 0) return NULL;
    return name;
}

static int open_shadow(const char *name, int flags) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", shadows, name);
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0644);
}

/* The file is gone, or has no name any more. With the lock held. */
static void forget(struct file *file) {
    close(file->shadow);
    file->shadow = -1;
    file->name[0] = 0;
    while (file->dirty) {
        struct range *range = file->dirty;
        file->dirty = range->next;
        free(range);
    }
}

/* The record of the file behind `fd`, or null if it is not in the directory. With the lock held. */
static struct file *find(int fd) {
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return NULL;
    struct file *file;
    for (file = files; file; file = file->next)
        /* A file without a name is gone, and its inode may have been reused. */
        if (file->name[0] && file->inode == status.st_ino && file->device == status.st_dev) return file;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return NULL;
    path[length] = 0;
    const char *name = name_in_root(path);
    if (!name) return NULL;
    /* A file that took the name of another within this process is a new one. */
    int flags = 0;
    for (struct file *other = files; other; other = other->next)
        if (strcmp(other->name, name) == 0) {
            forget(other);
            flags = O_TRUNC;
        }
    file = calloc(1, sizeof *file);
    if (!file) abort();
    file->device = status.st_dev;
    file->inode = status.st_ino;
    file->shadow = open_shadow(name, flags);
    strcpy(file->name, name);
    file->next = files;
    files = file;
    return file;
}

/* Copies a range of a file to stable storage. */
static void persist(struct file *file, int fd, off_t from, off_t to) {
    static char buffer[65536];
    /* The program may have opened it for writing only. */
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int source = open(link, O_RDONLY | O_CLOEXEC);
    if (source < 0) abort();
    while (from < to) {
        size_t wanted = (size_t)(to - from) < sizeof buffer ? (size_t)(to - from) : sizeof buffer;
        ssize_t got = pread(source, buffer, wanted, from);
        if (got < 0) abort();
        /* It has been truncated since. */
        if (got == 0) break;
        if (real_pwrite(file->shadow, buffer, (size_t)got, from) != got) abort();
        from += got;
    }
    close(source);
}

static void wrote(int fd, off_t from, size_t length) {
    pthread_mutex_lock(&lock);
    struct file *file = find(fd);
    if (file && rand_r(&chance) % 8 == 0) {
        persist(file, fd, from, from + (off_t)length);
    } else if (file) {
        struct range *range = malloc(sizeof *range);
        if (!range) abort();
        *range = (struct range){from, from + (off_t)length, file->dirty};
        file->dirty = range;
    }
    pthread_mutex_unlock(&lock);
}

/* A flush: all that is dirty arrives, or, if it fails, some of it. Nothing of it stays dirty. */
static void flushed(int fd, int failed) {
    pthread_mutex_lock(&lock);
    struct file *file = find(fd);
    struct stat status;
    if (file) {
        while (file->dirty) {
            struct range *range = file->dirty;
            if (!failed || rand_r(&chance) % 2) persist(file, fd, range->from, range->to);
            file->dirty = range->next;
            free(range);
        }
        if (!failed && fstat(fd, &status) == 0 && real_ftruncate(file->shadow, status.st_size) != 0) abort();
    }
    pthread_mutex_unlock(&lock);
}

static int is_ours(int fd) {
    pthread_mutex_lock(&lock);
    struct file *file = find(fd);
    pthread_mutex_unlock(&lock);
    return file != NULL;
}

static int sync_file(int fd, int (*real)(int)) {
    if (!is_ours(fd)) return real(fd);
    if (control->stall_syncs) {
        __atomic_add_fetch(&control->stalled, 1, __ATOMIC_SEQ_CST);
        while (control->stall_syncs) usleep(1000);
    }
    uint32_t left = control->fail_syncs;
    if (left) {
        if (left != UINT32_MAX) __atomic_sub_fetch(&control->fail_syncs, 1, __ATOMIC_SEQ_CST);
        flushed(fd, 1);
        __atomic_add_fetch(&control->failed_syncs, 1, __ATOMIC_SEQ_CST);
        errno = EIO;
        return -1;
    }
    int result = real(fd);
    if (result == 0) {
        flushed(fd, 0);
        __atomic_add_fetch(&control->syncs, 1, __ATOMIC_SEQ_CST);
        if (control->full_after && __atomic_sub_fetch(&control->full_after, 1, __ATOMIC_SEQ_CST) == 0)
            control->write_error = ENOSPC;
    }
    return result;
}

int fsync(int fd) { return sync_file(fd, real_fsync); }
int fdatasync(int fd) { return sync_file(fd, real_fdatasync); }

/* Whether a write to `fd` is to fail; then `errno` says why. */
static int write_fails(int fd) {
    if (!control || !control->write_error || !is_ours(fd)) return 0;
    __atomic_add_fetch(&control->failed_writes, 1, __ATOMIC_SEQ_CST);
    errno = (int)control->write_error;
    return 1;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    if (!real_write) real_write = dlsym(RTLD_NEXT, "write");
    if (write_fails(fd)) return -1;
    ssize_t written = real_write(fd, bytes, length);
    if (written > 0 && control && is_ours(fd)) wrote(fd, lseek(fd, 0, SEEK_CUR) - written, (size_t)written);
    return written;
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t offset) {
    if (write_fails(fd)) return -1;
    ssize_t written = real_pwrite(fd, bytes, length, offset);
    if (written > 0) wrote(fd, offset, (size_t)written);
    return written;
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    return pwrite64(fd, bytes, length, offset);
}

int rename(const char *from, const char *to) {
    int result = real_rename(from, to);
    const char *old = name_in_root(from), *new = name_in_root(to);
    if (result != 0 || !old || !new) return result;
    char old_path[PATH_MAX], new_path[PATH_MAX];
    snprintf(old_path, sizeof old_path, "%s/%s", shadows, old);
    snprintf(new_path, sizeof new_path, "%s/%s", shadows, new);
    pthread_mutex_lock(&lock);
    real_rename(old_path, new_path);
    for (struct file *file = files; file; file = file->next) {
        if (strcmp(file->name, new) == 0) forget(file);
        if (strcmp(file->name, old) == 0) strcpy(file->name, new);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int unlink(const char *path) {
    int result = real_unlink(path);
    const char *name = name_in_root(path);
    if (result != 0 || !name) return result;
    char shadow[PATH_MAX];
    snprintf(shadow, sizeof shadow, "%s/%s", shadows, name);
    pthread_mutex_lock(&lock);
    real_unlink(shadow);
    for (struct file *file = files; file; file = file->next)
        if (strcmp(file->name, name) == 0) forget(file);
    pthread_mutex_unlock(&lock);
    return result;
}
