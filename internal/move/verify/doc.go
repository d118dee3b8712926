// Package verify compares the rows of a copy on both sides: once, in the view that they were copied from
// ([Once]), or repeatedly while the target follows its source ([Following]).
//
// copier.Run uses it when copier.Options.Verify is set, and returns its reports:
//
//	for _, t := range report.Tables {
//		for _, d := range t.Verify.Different {
//			fmt.Println(t.Target, d.Chunk, d.Rows)
//		}
//	}
//
// Each server computes a checksum over the rows of a chunk, so that rows are not transferred. Where the
// checksums differ, the rows of the chunk are compared by a checksum per row, and those that differ are
// reported by key. Rows are compared in groups of 500, so that memory is bounded. At most 1,000 differing rows per
// table are named; all are counted.
package verify
