/* stamp FILE MS: sleeps MS to 2 x MS, appends its slot (the first GPU it sees), start and end (CLOCK_BOOTTIME, ns) to
   FILE. Lengths differ so that ends do not fall together. */
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int argc, char **argv) {
    long long row[3] = {0, now(), 0};
    const char *gpus = getenv("CUDA_VISIBLE_DEVICES");
    if (argc != 3) return 2;
    long us = atol(argv[2]) * 1000;
    us += getpid() * 7919L % us;
    struct timespec nap = {us / 1000000, us % 1000000 * 1000};
    row[0] = gpus ? atol(gpus) : -1;
    nanosleep(&nap, 0);
    int fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
    row[2] = now();
    return write(fd, row, sizeof row) == sizeof row ? 0 : 1;
}
