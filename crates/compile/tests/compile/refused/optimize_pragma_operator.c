// forbidden_construct: line 2: `#pragma GCC optimize
_Pragma("GCC optimize(\"fast-math\")")
void dgemm(int n,const double*A,const double*B,double*C){}
