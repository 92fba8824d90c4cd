// forbidden_construct: #pragma omp target
void dgemm(int n,const double*A,const double*B,double*C){
#pragma omp target
 C[0]=1;
}
