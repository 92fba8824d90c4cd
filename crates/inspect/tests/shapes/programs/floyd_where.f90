! problem: floyd_warshall
! techniques: none
subroutine floyd_warshall(n, weight, length) bind(c)
  use iso_c_binding
  implicit none
  integer(c_int), value :: n
  integer(c_int), intent(in) :: weight(n, n)
  integer(c_int), intent(inout) :: length(n, n)
  integer :: i, k
  length = weight
  do i = 1, n
    length(i, i) = 0
  end do
  do k = 1, n
    do i = 1, n
      where (length(k, i) + length(:, k) < length(:, i)) length(:, i) = length(k, i) + length(:, k)
    end do
  end do
end subroutine floyd_warshall
