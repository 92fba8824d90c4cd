! honest: whole parts of arrays in the steps, there and back
! problem: polybench_jacobi_2d
subroutine polybench_jacobi_2d(tsteps, n, a, b) bind(C, name="polybench_jacobi_2d")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: tsteps, n
  real(c_double), intent(inout) :: a(n, n)
  real(c_double), intent(out) :: b(n, n)
  integer :: t
  b = a
  do t = 1, tsteps
    call take(a, b)
    call take(b, a)
  end do
contains
  subroutine take(from, to)
    real(c_double), intent(in) :: from(n, n)
    real(c_double), intent(inout) :: to(n, n)
    integer :: i, j
    do j = 2, n - 1
      do i = 2, n - 1
        to(i, j) = 0.2_c_double * (from(i, j) + from(i - 1, j) + from(i + 1, j) + from(i, j + 1) + from(i, j - 1))
      end do
    end do
  end subroutine
end subroutine
