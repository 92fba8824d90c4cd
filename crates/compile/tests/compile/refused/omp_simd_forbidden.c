// forbidden_technique/openmp: the technique `simd`
void dgemm(int n,const double*A,const double*B,double*C){
#pragma omp simd
 for(int i=0;i<n;i++)C[i]=0;
}
