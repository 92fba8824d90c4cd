// forbidden_symbol: dlopen
void*dlopen(const char*,int);
void dgemm(int n,const double*A,const double*B,double*C){dlopen("libopenblas.so",1);}
