package rowstream

// A BatchSummer adds the rows of batches to a Checksum: the one that SumChunk has for them. It reuses its memory and must not be used
// concurrently.
type BatchSummer struct{ s *rowSummer }

// NewBatchSummer returns a summer for batches with the columns of a table.
func NewBatchSummer(t *Table) *BatchSummer {
	columns := make([]int, len(t.Columns))
	for i := range columns {
		columns[i] = i
	}
	return &BatchSummer{newRowSummer(t, columns)}
}

// Add adds the rows of a batch. It does not allocate after rows of the same width.
func (s *BatchSummer) Add(sum *Checksum, b *Batch) error {
	for at := 0; at < len(b.Bytes); {
		var err error
		if at, err = b.Row(at, &s.s.row); err != nil {
			return err
		}
		sum.Rows++
		sum.Sum ^= s.s.sum(s.s.row)
	}
	return nil
}
