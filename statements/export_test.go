package statements

// AddUpNoSamples makes charts of all statements use sums, as with many Keys.
func (a *ArchiveReader) AddUpNoSamples() { a.few = 0 }
