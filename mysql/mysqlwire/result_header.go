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

// headerFlag are the capabilities that add a flag after the column count: 0 = no definitions follow. MySQL's manual
// has CapOptionalMetadata's before the count; its servers send it after.
const headerFlag = CapMariaCacheMetadata | CapOptionalMetadata

// Decode reads a result's header by the connection's capabilities. The caller has checked the first byte: OK,
// ERR and the LOCAL INFILE request may be sent instead. It does not allocate.
func (h *ResultHeader) Decode(payload []byte, caps Capability) error {
	const what = "result header"
	c := cursor{rest: payload}
	*h = ResultHeader{}
	h.Columns = c.lenenc()
	if caps&headerFlag != 0 {
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
	dst = AppendLenencInt(dst, h.Columns)
	if caps&headerFlag != 0 {
		dst = append(dst, follow)
	}
	return dst
}
