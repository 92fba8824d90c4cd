// compile_error: #error no
#error no
void dgemm(int n,const double*A,const double*B,double*C){}
