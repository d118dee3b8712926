package statements

// AddUpNoSamples makes charts of all statements use sums, as with many Keys.
func (a *ArchiveReader) AddUpNoSamples() { a.few = 0 }

// Halve ranks any number of rows in two halves.
func (a *ArchiveReader) Halve() { a.halved = 0 }

// RestFiles returns the number of files of the current hour, as last read.
func (a *ArchiveReader) RestFiles() int {
	a.counters.Lock()
	defer a.counters.Unlock()
	if a.counters.rest == nil {
		return 0
	}
	return len(a.counters.rest.files)
}
