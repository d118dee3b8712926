package statements

// AddUpNoSamples makes charts of all statements use sums, as with many Keys.
func (a *ArchiveReader) AddUpNoSamples() { a.few = 0 }

// Halve ranks any number of rows in two halves.
func (a *ArchiveReader) Halve() { a.halved = 0 }
