/* A second thread stays awake for a while after each call. If it saw that the inputs of the next call are made, it could
   begin to work before the time of that call starts; here it ends the process instead. */
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t posted = PTHREAD_COND_INITIALIZER;
static volatile int calls, inside;
static volatile unsigned long *volatile last;
/* Outputs are poisoned after inputs were made. */
static int made(void) { return *last == 0x7ff8deadbeeff10f; }
static void *helper(void *unused) {
  for (int seen = 0;;) {
    pthread_mutex_lock(&lock);
    while (calls == seen) pthread_cond_wait(&posted, &lock);
    seen = calls;
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < 500000 && calls == seen; i++)
      if (!inside && made()) __builtin_trap();
  }
  return unused;
}
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  static pthread_t thread;
  inside = 1;
  last = (volatile unsigned long *)&C[n * n - 1];
  if (!thread) pthread_create(&thread, 0, helper, 0);
  right(n, A, B, C);
  pthread_mutex_lock(&lock);
  calls++;
  pthread_cond_signal(&posted);
  pthread_mutex_unlock(&lock);
  inside = 0;
}
