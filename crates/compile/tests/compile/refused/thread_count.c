// forbidden_symbol: omp_set_num_threads
#include <omp.h>
void dgemm(int n,const double*A,const double*B,double*C){omp_set_num_threads(64);}
