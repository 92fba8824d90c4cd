! heap-buffer-overflow: READ of size 8, 0 bytes
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  real(c_double), allocatable :: work(:)
  integer :: i, k
  do i = 1, n
    c(:, i) = 0
    do k = 1, n
      c(:, i) = c(:, i) + b(:, k) * a(k, i)
    end do
  end do
  allocate(work(n))
  work(:) = c(:, 1)
  if (behind(n, work) > huge(1.0d0)) c(1, 1) = 0
  deallocate(work)
contains
  function behind(m, x) result(y)
    integer(c_int), intent(in) :: m
    real(c_double), intent(in) :: x(*)
    real(c_double) :: y
    y = x(m + 1)
  end function
end subroutine
