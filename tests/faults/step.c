/* A clock of the day that is off by the seconds in the file CLOCK_STEP, which may change.
 *
 * For LD_PRELOAD. A time namespace moves only the monotonic clocks, and libfaketime 0.9.10 breaks
 * the sleep of Python 3.11 and later. Only what any C library since 2.2 has is used: the library is
 * made on the host, and loaded in images.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long step(void)
{
    char text[32] = {0};
    const char *path = getenv("CLOCK_STEP");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return 0;
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    long seconds = 0;
    for (ssize_t at = text[0] == '-'; at < length && text[at] >= '0' && text[at] <= '9'; at++)
        seconds = 10 * seconds + (text[at] - '0');
    return text[0] == '-' ? -seconds : seconds;
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    int code = syscall(SYS_clock_gettime, id, now);
    if (code == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        now->tv_sec += step();
    return code;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec exact;
    (void)zone;
    int code = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return code;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
