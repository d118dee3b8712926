package mysqlwire

// First bytes by which a payload from the server tells its kind. Most have a second
// meaning where rows are expected; the packet's type says how they are told apart.
const (
	MarkOK          = 0x00 // OK; a binary row; the answer to PREPARE
	MarkAuthMore    = 0x01 // more authentication data
	MarkNextFactor  = 0x02 // the next factor of multi-factor authentication
	MarkLocalInfile = 0xFB // LOCAL INFILE request; NULL at the start of a text row
	MarkEOF         = 0xFE // EOF; OK after rows; during login: authentication switch
	MarkErr         = 0xFF // ERR; MariaDB's progress report
)
