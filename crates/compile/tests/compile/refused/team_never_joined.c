// forbidden_symbol: GOMP_parallel_start
void GOMP_parallel_start(void(*)(void*),void*,unsigned);
static void f(void*p){}
void dgemm(int n,const double*A,const double*B,double*C){GOMP_parallel_start(f,0,2);}
