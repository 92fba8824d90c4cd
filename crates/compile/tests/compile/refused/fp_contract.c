// forbidden_construct: #pragma STDC
#pragma STDC FP_CONTRACT ON
void dgemm(int n,const double*A,const double*B,double*C){}
