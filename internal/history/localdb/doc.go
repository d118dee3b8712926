// Package localdb opens and repairs the local time series database of a history: its head, write-ahead log
// and blocks in a directory.
//
//	dir := localdb.Directory{Path: path, State: state, Log: log}
//	db, err := dir.Open(expired)
//	database := localdb.NewDatabase(db)
//
// [Directory.Open] checks blocks and the log and sets aside those that cannot be read. [Database] is a
// storage.Queryable whose TSDB can be replaced: [Database.Replace] closes it when all queriers are closed,
// and opens it again after a failed write.
//
// The TSDB does not compact on its own: the caller writes blocks, so that it can recover from the TSDB's
// panics on failed writes.
package localdb
