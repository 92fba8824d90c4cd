! honest: a copy of an operand in memory of its own, and names that are statements elsewhere
subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
  use, intrinsic :: iso_c_binding
  implicit none
  integer(c_int), value :: n
  real(c_double), intent(in) :: a(n, n), b(n, n)
  real(c_double), intent(out) :: c(n, n)
  real(c_double), allocatable :: work(:, :)
  integer :: i, j, k, print, stat
  allocate(work(n, n), stat=stat)
  if (stat /= 0) return
  work = b; print = 0
  outer: do i = 1, n
    do j = 1, n
      c(j, i) = 0
    end do
    do k = 1, n
      where (work(:, k) == work(:, k)) c(:, i) = c(:, i) + work(:, k) * a(k, i)
    end do
    print = print + 1
    if (print > n) exit outer
  end do outer
  deallocate(work)
end subroutine
