/* Waits that libfaketime 0.9.10 gets wrong, so that only wall clocks leap, and no wait with them.

   - clock_nanosleep until a moment of the monotonic clock, by which Python sleeps, ends with EINVAL:
     it goes to the kernel as it is.
   - cnd_timedwait, by which librdkafka waits, is glibc's own and waits by the machine's wall clock
     for a moment of the moved one, up to an hour too long: it goes by pthread_cond_timedwait, which
     libfaketime translates. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until, struct timespec *left)
{
    return syscall(SYS_clock_nanosleep, clock, flags, until, left) == 0 ? 0 : errno;
}

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until)
{
    int status = pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until);
    if (status == 0)
        return thrd_success;
    return status == ETIMEDOUT ? thrd_timedout : thrd_error;
}
