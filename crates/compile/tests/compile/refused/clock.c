// forbidden_construct: reading a clock
void dgemm(int n,const double*A,const double*B,double*C){C[0]=(double)__builtin_ia32_rdtsc();}
