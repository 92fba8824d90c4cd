! nothing: a module with a type, an allocatable workspace, sections of arrays and a size left open
module kernels
  use, intrinsic :: iso_c_binding, only: c_int, dp => c_double
  implicit none
  private
  public :: dgemm
  type :: block_size
    integer :: rows = 16
  end type
contains
  subroutine column(n, b, x, y)
    integer, intent(in) :: n
    real(dp), intent(in) :: b(n, n), x(*)
    real(dp), intent(out) :: y(n)
    integer :: k
    y = 0
    do k = 1, n
      y = y + b(:, k) * x(k)
    end do
  end subroutine
  subroutine dgemm(n, a, b, c) bind(C, name="dgemm")
    integer(c_int), value :: n
    real(dp), intent(in) :: a(n, n), b(n, n)
    real(dp), intent(out) :: c(n, n)
    real(dp), allocatable :: work(:, :)
    type(block_size) :: size
    integer :: i, from
    allocate(work(n, 0:size%rows - 1))
    do from = 1, n, size%rows
      do i = 0, min(n - from, size%rows - 1)
        call column(n, b, a(:, from + i), work(:, i))
      end do
      c(:, from:from + size%rows - 1) = work(:, 0:size%rows - 1)
    end do
    deallocate(work)
  end subroutine
end module
