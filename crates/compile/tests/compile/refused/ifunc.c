// forbidden_construct: the attribute `ifunc`
static void*pick(void){return 0;}
void dgemm(int n,const double*A,const double*B,double*C) __attribute__((ifunc("pick")));
