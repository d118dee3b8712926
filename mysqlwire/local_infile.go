package mysqlwire

// A LocalInfile asks the client for the contents of one of its files: the answer to LOAD
// DATA LOCAL INFILE. The client sends the contents in packets of its own and ends with an
// empty one; then OK or ERR follows.
//
// Specification: MySQL "LOCAL INFILE Request", MariaDB "LOCAL INFILE Packet".
type LocalInfile struct {
	Filename []byte // a view of the payload
}

// Decode reads the request. It does not allocate.
func (l *LocalInfile) Decode(payload []byte) error {
	*l = LocalInfile{}
	c, err := open(payload, MarkLocalInfile, "local infile request")
	if err != nil {
		return err
	}
	l.Filename = c.all()
	return nil
}

// AppendTo appends the request. It does not allocate when dst has room.
func (l LocalInfile) AppendTo(dst []byte) []byte {
	return append(append(dst, MarkLocalInfile), l.Filename...)
}
