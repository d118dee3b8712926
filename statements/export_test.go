package statements

// AddUpNoSamples makes charts of all statements from their sums, as with many Keys.
func (a *ArchiveReader) AddUpNoSamples() { a.few = 0 }
