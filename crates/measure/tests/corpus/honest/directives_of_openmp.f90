! honest: a parallel loop and a hint to the compiler, continued over lines
! techniques: loop_reorder+openmp
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  integer :: i, j, k
  !$omp parallel do private(j, k) &
  !$omp& shared(a, b, c, n) schedule(static)
  do i = 1, n
    c(:, i) = 0
    do k = 1, n
      !GCC$ ivdep
      do j = 1, n
        c(j, i) = c(j, i) + &
          b(j, k) * a(k, i) ! it's no text
      end do
    end do
  end do
  !$omp end parallel do
end subroutine
