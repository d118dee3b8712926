package binlog

// An eventEffect is the effect of an event's type on a reader.
type eventEffect uint8

const (
	eventStops   eventEffect = iota // the reader stops, unless the server marks the event as ignorable
	eventDecoded                    // its content is read
	eventSkipped                    // it changes no rows
)

func (e eventEffect) String() string { return [...]string{"stops", "read", "skipped"}[e] }

// maxEventType is the last type of the servers' header files.
const maxEventType = 172

// eventTypes are the types of events: enum Log_event_type in MySQL's binlog_event.h (9.7) and MariaDB's log_event.h (12.3),
// by number. Types without a name have none there.
var eventTypes = [256]struct {
	name   string
	effect eventEffect
	why    string // the content that is read, or the reason for a skip or a stop
}{
	0:                      {"UNKNOWN_EVENT", eventStops, "of no log"},
	1:                      {"START_EVENT_V3", eventStops, "of logs before 5.0"},
	eventQuery:             {"QUERY_EVENT", eventDecoded, "statements, the begin and end of transactions; one that may change followed rows or their definition stops the reader"},
	eventStop:              {"STOP_EVENT", eventSkipped, "the end of a file"},
	eventRotate:            {"ROTATE_EVENT", eventDecoded, "the name of the next file"},
	5:                      {"INTVAR_EVENT", eventSkipped, "a value for the statement after it"},
	6:                      {"LOAD_EVENT", eventStops, "LOAD DATA before 5.0.3"},
	7:                      {"SLAVE_EVENT", eventStops, "of no log"},
	8:                      {"CREATE_FILE_EVENT", eventStops, "LOAD DATA before 5.0.3"},
	9:                      {"APPEND_BLOCK_EVENT", eventSkipped, "a part of the file of an EXECUTE_LOAD_QUERY_EVENT"},
	10:                     {"EXEC_LOAD_EVENT", eventStops, "LOAD DATA before 5.0.3"},
	11:                     {"DELETE_FILE_EVENT", eventSkipped, "a LOAD DATA that failed"},
	12:                     {"NEW_LOAD_EVENT", eventStops, "LOAD DATA before 5.0.3"},
	13:                     {"RAND_EVENT", eventSkipped, "a value for the statement after it"},
	14:                     {"USER_VAR_EVENT", eventSkipped, "a value for the statement after it"},
	eventFormat:            {"FORMAT_DESCRIPTION_EVENT", eventDecoded, "the server's version, and whether events have checksums"},
	eventXID:               {"XID_EVENT", eventDecoded, "the commit of a transaction"},
	eventBeginLoad:         {"BEGIN_LOAD_QUERY_EVENT", eventSkipped, "a part of the file of an EXECUTE_LOAD_QUERY_EVENT"},
	eventExecuteLoad:       {"EXECUTE_LOAD_QUERY_EVENT", eventDecoded, "a LOAD DATA that was logged as a statement: the reader stops"},
	eventTableMap:          {"TABLE_MAP_EVENT", eventDecoded, "a table's name, types and metadata; another form than the described one stops the reader"},
	20:                     {"PRE_GA_WRITE_ROWS_EVENT", eventStops, "of MySQL 5.1 before 5.1.16"},
	21:                     {"PRE_GA_UPDATE_ROWS_EVENT", eventStops, "of MySQL 5.1 before 5.1.16"},
	22:                     {"PRE_GA_DELETE_ROWS_EVENT", eventStops, "of MySQL 5.1 before 5.1.16"},
	eventWriteRowsV1:       {"WRITE_ROWS_EVENT_V1", eventDecoded, "rows"},
	eventUpdateRowsV1:      {"UPDATE_ROWS_EVENT_V1", eventDecoded, "rows"},
	eventDeleteRowsV1:      {"DELETE_ROWS_EVENT_V1", eventDecoded, "rows"},
	eventIncident:          {"INCIDENT_EVENT", eventDecoded, "the server lost events: the reader stops"},
	eventHeartbeat:         {"HEARTBEAT_LOG_EVENT", eventSkipped, "in no file: the server has nothing more"},
	28:                     {"IGNORABLE_LOG_EVENT", eventSkipped, "marked as ignorable"},
	29:                     {"ROWS_QUERY_LOG_EVENT", eventSkipped, "the statement of the rows after it, for people"},
	eventWriteRows:         {"WRITE_ROWS_EVENT", eventDecoded, "rows"},
	eventUpdateRows:        {"UPDATE_ROWS_EVENT", eventDecoded, "rows"},
	eventDeleteRows:        {"DELETE_ROWS_EVENT", eventDecoded, "rows"},
	eventGTID:              {"GTID_LOG_EVENT", eventDecoded, "the start and the GTID of a transaction"},
	eventAnonymousGTID:     {"ANONYMOUS_GTID_LOG_EVENT", eventDecoded, "the start of a transaction"},
	35:                     {"PREVIOUS_GTIDS_LOG_EVENT", eventSkipped, "GTIDs of the files before"},
	36:                     {"TRANSACTION_CONTEXT_EVENT", eventSkipped, "of group replication"},
	37:                     {"VIEW_CHANGE_EVENT", eventSkipped, "of group replication"},
	eventXAPrepare:         {"XA_PREPARE_LOG_EVENT", eventDecoded, "the end of a prepared transaction, or its commit in one phase"},
	eventPartialUpdate:     {"PARTIAL_UPDATE_ROWS_EVENT", eventDecoded, "rows with differences of JSON values: the reader stops if the table is followed"},
	eventPayload:           {"TRANSACTION_PAYLOAD_EVENT", eventDecoded, "events compressed with zstd"},
	eventHeartbeat2:        {"HEARTBEAT_LOG_EVENT_V2", eventSkipped, "in no file: the server has nothing more"},
	eventTaggedGTID:        {"GTID_TAGGED_LOG_EVENT", eventDecoded, "the start and the GTID of a transaction"},
	160:                    {"ANNOTATE_ROWS_EVENT", eventSkipped, "the statement of the rows after it, for people"},
	161:                    {"BINLOG_CHECKPOINT_EVENT", eventSkipped, "for the server's recovery"},
	eventMariaGTID:         {"GTID_EVENT", eventDecoded, "the start and the GTID of a transaction"},
	eventMariaGTIDList:     {"GTID_LIST_EVENT", eventDecoded, "GTIDs of the files before"},
	eventStartEncryption:   {"START_ENCRYPTION_EVENT", eventSkipped, "the server sends events decrypted"},
	eventQueryCompressed:   {"QUERY_COMPRESSED_EVENT", eventDecoded, "as QUERY_EVENT, compressed with zlib"},
	eventWriteCompressedV1: {"WRITE_ROWS_COMPRESSED_EVENT_V1", eventDecoded, "rows compressed with zlib"},
	167:                    {"UPDATE_ROWS_COMPRESSED_EVENT_V1", eventDecoded, "rows compressed with zlib"},
	eventDeleteCompressed1: {"DELETE_ROWS_COMPRESSED_EVENT_V1", eventDecoded, "rows compressed with zlib"},
	eventWriteCompressed:   {"WRITE_ROWS_COMPRESSED_EVENT", eventDecoded, "rows compressed with zlib"},
	170:                    {"UPDATE_ROWS_COMPRESSED_EVENT", eventDecoded, "rows compressed with zlib"},
	eventDeleteCompressed:  {"DELETE_ROWS_COMPRESSED_EVENT", eventDecoded, "rows compressed with zlib"},
	maxEventType:           {"PARTIAL_ROW_DATA_EVENT", eventStops, "a part of an event that is larger than slave_max_allowed_packet, of MariaDB 12.3"},
}

// known reports whether the reader knows what events of the type are for.
func (t eventType) known() bool { return eventTypes[t].effect != eventStops }
