! Context-parallel attention of its own, which cpeq judges: keys and values are gathered from all ranks, their gradients
! are summed and scattered back.
!
!   mpirun -n 3 mpi_f90 fixture.h5 dumps [--broken]
!   cpeq diff fixture.h5 dumps
!
! The fixture is of kind "attention". Tokens are dealt out one by one: rank r holds r, r + P, r + 2P, … With --broken a
! query's place is forgotten: masks see its number on its rank instead.
program mpi_f90
    use, intrinsic :: iso_c_binding
    use mpi_f08
    use cpeq
    implicit none

    type(cpeq_fixture) :: fixture
    type(cpeq_dump) :: dump
    character(len=4096) :: path, folder, option
    integer :: B, T, H, K, D, S, most, rank, ranks
    integer(c_int64_t), allocatable :: extents(:), documents(:, :), token(:)
    integer(c_int8_t), allocatable :: mask(:, :)
    real(c_double), allocatable, dimension(:, :, :, :) :: whole_q, whole_k, whole_v, whole_dout
    real(c_double), allocatable, dimension(:, :, :, :) :: q, dout, out, dq, own_k, own_v, dk, dv
    real(c_double), allocatable, dimension(:, :, :, :, :) :: all_k, all_v, all_dk, all_dv
    real(c_double), allocatable :: lse(:, :, :), sink(:), dsink(:)
    real(c_double) :: scale, softcap
    integer(c_int64_t) :: window, causal
    logical :: broken, has_sink, found

    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    call get_command_argument(1, path)
    call get_command_argument(2, folder)
    call get_command_argument(3, option)
    broken = option == '--broken'

    call read_fixture()
    call deal()
    call attend()
    call write_dump()
    call cpeq_close(fixture)
    call MPI_Finalize()

contains

    subroutine stop_all(sentence)
        character(len=*), intent(in) :: sentence
        write (*, '(2a)') 'mpi_f90: ', sentence
        call MPI_Abort(MPI_COMM_WORLD, 3)
    end subroutine

    subroutine check(status)
        integer(c_int), intent(in) :: status
        if (status /= CPEQ_OK) call stop_all(cpeq_error(fixture))
    end subroutine

    subroutine read_fixture()
        integer(c_int64_t) :: chunk
        call check(cpeq_open(fixture, path))
        call check(cpeq_extents(fixture, 'batch/q', extents)) ! D, H, T, B: the file's [B,T,H,D]
        D = int(extents(1)); H = int(extents(2)); T = int(extents(3)); B = int(extents(4))
        call check(cpeq_extents(fixture, 'batch/k', extents))
        K = int(extents(2))
        scale = 1 / sqrt(real(D, c_double)); softcap = 0; window = 0; causal = 1; chunk = 0
        call check(cpeq_attribute(fixture, 'scale', scale))
        call check(cpeq_attribute(fixture, 'softcap', softcap))
        call check(cpeq_attribute(fixture, 'window', window))
        call check(cpeq_attribute(fixture, 'causal', causal))
        call check(cpeq_attribute(fixture, 'chunk', chunk, found))
        if (found) call stop_all('this example knows no chunks')

        allocate (whole_q(D, H, T, B), whole_dout(D, H, T, B), whole_k(D, K, T, B), whole_v(D, K, T, B))
        call check(cpeq_read(fixture, 'batch/q', CPEQ_FLOAT64, whole_q))
        call check(cpeq_read(fixture, 'batch/k', CPEQ_FLOAT64, whole_k))
        call check(cpeq_read(fixture, 'batch/v', CPEQ_FLOAT64, whole_v))
        call check(cpeq_read(fixture, 'batch/dout', CPEQ_FLOAT64, whole_dout))
        allocate (mask(T, B), documents(T, B), sink(H), dsink(H))
        mask = 1; documents = 0; sink = 0; dsink = 0
        if (cpeq_has(fixture, 'batch/attention_mask')) &
            call check(cpeq_read(fixture, 'batch/attention_mask', CPEQ_UINT8, mask))
        if (cpeq_has(fixture, 'batch/document_ids')) &
            call check(cpeq_read(fixture, 'batch/document_ids', CPEQ_INT64, documents))
        has_sink = cpeq_has(fixture, 'batch/sink')
        if (has_sink) call check(cpeq_read(fixture, 'batch/sink', CPEQ_FLOAT64, sink))
    end subroutine

    ! This rank's tokens. What is gathered has room for `most` of each rank.
    subroutine deal()
        integer :: i
        S = (T - rank + ranks - 1) / ranks
        most = (T + ranks - 1) / ranks
        token = [(int(rank + ranks * i, c_int64_t), i=0, S - 1)]
        q = whole_q(:, :, token + 1, :)
        dout = whole_dout(:, :, token + 1, :)
        allocate (out(D, H, S, B), dq(D, H, S, B), lse(H, S, B), own_k(D, K, most, B), own_v(D, K, most, B))
        allocate (all_k(D, K, most, B, ranks), all_v(D, K, most, B, ranks))
        own_k = 0; own_v = 0
        own_k(:, :, :S, :) = whole_k(:, :, token + 1, :)
        own_v(:, :, :S, :) = whole_v(:, :, token + 1, :)
    end subroutine

    ! Whether the n-th token of this rank sees the m-th of another (from 1).
    logical function sees(row, n, other, m)
        integer, intent(in) :: row, n, other, m
        integer(c_int64_t) :: query, key, place
        query = token(n)
        key = other + ranks * (m - 1)
        sees = key < T
        if (.not. sees) return
        place = query
        if (broken) place = n - 1
        sees = mask(query + 1, row) == 1 .and. mask(key + 1, row) == 1 &
            .and. documents(query + 1, row) == documents(key + 1, row) &
            .and. (causal == 0 .or. key <= place) .and. (window == 0 .or. place - key < window)
    end function

    ! The scores of one query head, and where there are any; `slope` is the soft-cap's.
    subroutine score(row, n, head, scores, slope, visible)
        integer, intent(in) :: row, n, head
        real(c_double), intent(out) :: scores(most, ranks), slope(most, ranks)
        logical, intent(out) :: visible(most, ranks)
        integer :: m, r, key_head
        key_head = (head - 1) * K / H + 1
        scores = 0
        do r = 1, ranks
            do m = 1, most
                visible(m, r) = sees(row, n, r - 1, m)
                if (visible(m, r)) scores(m, r) = scale * dot_product(q(:, head, n, row), all_k(:, key_head, m, row, r))
            end do
        end do
        slope = 1
        if (softcap > 0) then
            scores = tanh(scores / softcap)
            slope = 1 - scores**2
            scores = softcap * scores
        end if
    end subroutine

    subroutine attend()
        integer :: row, n, head
        call MPI_Allgather(own_k, size(own_k), MPI_DOUBLE_PRECISION, all_k, size(own_k), MPI_DOUBLE_PRECISION, &
                           MPI_COMM_WORLD)
        call MPI_Allgather(own_v, size(own_v), MPI_DOUBLE_PRECISION, all_v, size(own_v), MPI_DOUBLE_PRECISION, &
                           MPI_COMM_WORLD)
        allocate (all_dk, mold=all_k)
        allocate (all_dv, mold=all_v)
        allocate (dk, mold=own_k)
        allocate (dv, mold=own_v)
        out = 0; lse = 0; dq = 0; all_dk = 0; all_dv = 0
        do row = 1, B
            do n = 1, S
                do head = 1, H
                    call attend_head(row, n, head)
                end do
            end do
        end do
        call MPI_Reduce_scatter_block(all_dk, dk, size(dk), MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
        call MPI_Reduce_scatter_block(all_dv, dv, size(dv), MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
    end subroutine

    ! Forward and backward of one query head; dsink is this rank's share of the sum.
    subroutine attend_head(row, n, head)
        integer, intent(in) :: row, n, head
        real(c_double), dimension(most, ranks) :: scores, slope, probability
        real(c_double) :: largest, total, delta, dscore
        logical :: visible(most, ranks)
        integer :: m, r, kv
        call score(row, n, head, scores, slope, visible)
        if (.not. any(visible)) return ! padding
        kv = (head - 1) * K / H + 1
        largest = maxval(scores, mask=visible)
        if (has_sink) largest = max(largest, sink(head))
        probability = merge(exp(scores - largest), 0d0, visible)
        total = sum(probability)
        if (has_sink) total = total + exp(sink(head) - largest)
        probability = probability / total
        lse(head, n, row) = largest + log(total)
        do r = 1, ranks
            do m = 1, most
                out(:, head, n, row) = out(:, head, n, row) + probability(m, r) * all_v(:, kv, m, row, r)
            end do
        end do
        delta = dot_product(out(:, head, n, row), dout(:, head, n, row))
        if (has_sink) dsink(head) = dsink(head) - exp(sink(head) - lse(head, n, row)) * delta
        do r = 1, ranks
            do m = 1, most
                if (.not. visible(m, r)) cycle
                dscore = dot_product(dout(:, head, n, row), all_v(:, kv, m, row, r)) - delta
                dscore = scale * probability(m, r) * slope(m, r) * dscore
                dq(:, head, n, row) = dq(:, head, n, row) + dscore * all_k(:, kv, m, row, r)
                all_dk(:, kv, m, row, r) = all_dk(:, kv, m, row, r) + dscore * q(:, head, n, row)
                all_dv(:, kv, m, row, r) = all_dv(:, kv, m, row, r) + probability(m, r) * dout(:, head, n, row)
            end do
        end do
    end subroutine

    ! A dump that failed stays failed: the last status tells of the first failure.
    subroutine write_dump()
        integer(c_int) :: status
        character(len=4200) :: name
        write (name, '(2a, i4.4, a)') trim(folder), '/rank-', rank, '.h5'
        status = cpeq_create(dump, name, 'attention')
        status = cpeq_set(dump, 'fixture_id', cpeq_id(fixture))
        status = cpeq_set(dump, 'implementation', 'examples/mpi.f90')
        status = cpeq_set(dump, 'exchange', 'allgather')
        status = cpeq_set(dump, 'layout', 'striped')
        status = cpeq_set(dump, 'compute_dtype', 'float64')
        status = cpeq_set(dump, 'cp_size', ranks)
        status = cpeq_set(dump, 'cp_rank', rank)
        status = cpeq_write(dump, 'token_index', CPEQ_INT64, [S], token)
        status = cpeq_write(dump, 'out', CPEQ_FLOAT64, shape(out), out)
        status = cpeq_write(dump, 'lse', CPEQ_FLOAT64, shape(lse), lse)
        status = cpeq_write(dump, 'dq', CPEQ_FLOAT64, shape(dq), dq)
        status = cpeq_write(dump, 'dk', CPEQ_FLOAT64, [D, K, S, B], dk(:, :, :S, :))
        status = cpeq_write(dump, 'dv', CPEQ_FLOAT64, [D, K, S, B], dv(:, :, :S, :))
        if (has_sink) then
            status = cpeq_set(dump, 'gradients', 'partial')
            status = cpeq_write(dump, 'dsink', CPEQ_FLOAT64, shape(dsink), dsink)
        end if
        status = cpeq_finish(dump)
        if (status /= CPEQ_OK) call stop_all(cpeq_error(dump))
        call cpeq_close(dump)
    end subroutine

end program
