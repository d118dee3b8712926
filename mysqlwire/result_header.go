package mysqlwire

// A ResultHeader begins a result with rows: it has the number of columns.
//
// Specification: MySQL "Text Resultset", MariaDB "Result Set Packets#Column count packet".
type ResultHeader struct {
	Columns uint64

	// NoDefinitions reports that no column definitions follow: the client has them from the statement's
	// preparation (CapMariaCacheMetadata) or did not request them (CapOptionalMetadata).
	NoDefinitions bool
}

// Decode reads a result's header by the connection's capabilities. The caller has checked the first byte: OK,
// ERR and the LOCAL INFILE request may be sent instead. It does not allocate.
func (h *ResultHeader) Decode(payload []byte, caps Capability) error {
	const what = "result header"
	c := cursor{rest: payload}
	*h = ResultHeader{}
	if caps.Has(CapOptionalMetadata) {
		h.NoDefinitions = c.u8() == 0
	}
	h.Columns = c.lenenc()
	if caps.Has(CapMariaCacheMetadata) {
		h.NoDefinitions = c.u8() == 0
	}
	if c.more() {
		return malformed(what, "bytes after the column count")
	}
	return c.done(what)
}

// AppendTo appends the payload of h. It does not allocate when dst has room.
func (h ResultHeader) AppendTo(dst []byte, caps Capability) []byte {
	var follow byte
	if !h.NoDefinitions {
		follow = 1
	}
	if caps.Has(CapOptionalMetadata) {
		dst = append(dst, follow)
	}
	dst = AppendLenencInt(dst, h.Columns)
	if caps.Has(CapMariaCacheMetadata) {
		dst = append(dst, follow)
	}
	return dst
}
