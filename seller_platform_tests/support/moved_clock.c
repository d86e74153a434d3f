/* Lets a process take the time of the machine plus nanoseconds that a shared file holds.
 *
 * It is preloaded. The monotonic clock, and with it the length of sleeps and timeouts, is that of the machine: waits that
 * end at a moment of the moved clock are given that moment by the kernel's clock. libfaketime 0.9.10 has no such clock:
 * with an offset that changes, `clock_nanosleep` fails.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile int64_t *ahead;

__attribute__((constructor)) static void open_clock(void)
{
    const char *path = getenv("SELLER_PLATFORM_TESTS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *shared = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (shared != MAP_FAILED)
        ahead = shared;
}

static struct timespec plus(struct timespec moment, int64_t nanoseconds)
{
    int64_t sum = moment.tv_sec * SECOND + moment.tv_nsec + nanoseconds;
    return (struct timespec){sum / SECOND, sum % SECOND};
}

static int read_clock(clockid_t clock, struct timespec *moment)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = dlsym(RTLD_NEXT, "clock_gettime");
    return real(clock, moment);
}

int clock_gettime(clockid_t clock, struct timespec *moment)
{
    int failed = read_clock(clock, moment);
    if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        *moment = plus(*moment, *ahead);
    return failed;
}

int gettimeofday(struct timeval *restrict moment, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *moment = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *moment)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (moment)
        *moment = now.tv_sec;
    return now.tv_sec;
}

/* Return a moment by the machine's clock. One of the monotonic clock, which is much smaller, stays as it is. */
static struct timespec of_machine(const struct timespec *moment)
{
    struct timespec now;
    read_clock(CLOCK_REALTIME, &now);
    return ahead && moment->tv_sec > now.tv_sec / 2 ? plus(*moment, -*ahead) : *moment;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until)
{
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real)
        real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    struct timespec moment = of_machine(until);
    return real(condition, mutex, &moment);
}

/* Abseil, which gRPC contains, waits by the kernel's futex until a moment. */
long syscall(long number, ...)
{
    static long (*real)(long, ...);
    va_list list;
    long a[6];
    struct timespec moment;
    if (!real)
        real = dlsym(RTLD_NEXT, "syscall");
    va_start(list, number);
    for (int each = 0; each < 6; each++)
        a[each] = va_arg(list, long);
    va_end(list);
    if (number == SYS_futex && a[3] && (a[1] & FUTEX_CLOCK_REALTIME)) {
        moment = of_machine((const struct timespec *)a[3]);
        a[3] = (long)&moment;
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
