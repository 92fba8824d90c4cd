// honest: tabs, form feeds and blanks at the ends of lines

void	dgemm(int n,	const double *A, const double *B,	double *C)  
{	
int i, j, k;	 
	for (i = 0; i < n; i++) {   
		for (j = 0; j < n; j++) C[i * n + j] = 0;	


		for (k = 0; k < n; k++)
			for (j = 0; j < n; j++)
				C[i * n + j] += A[i * n + k] * B[k * n + j];
	}
}
