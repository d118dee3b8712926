package rowstream

// SumBatches returns a function that adds the rows of a batch with the columns of a table to a Checksum: the one that
// SumChunk has for them. It reuses its memory, does not allocate after rows of the same width, and must not be called concurrently.
func SumBatches(t *Table) func(sum *Checksum, b *Batch) error {
	columns := make([]int, len(t.Columns))
	for i := range columns {
		columns[i] = i
	}
	s := newRowSummer(t, columns)
	return func(sum *Checksum, b *Batch) error {
		for at := 0; at < len(b.Bytes); {
			var err error
			if at, err = b.Row(at, &s.row); err != nil {
				return err
			}
			sum.Rows++
			sum.Sum ^= s.sum(s.row)
		}
		return nil
	}
}
