package api

import "time"

// Bounds of the file of an import.
const (
	MaxImportPart  = 16 << 20 // bytes
	MaxImportFile  = 1 << 30  // bytes
	MaxImportParts = 10_000
)

// States of an import.
const (
	ImportUploading = "uploading" // parts of the file are awaited
	ImportReading   = "reading"   // rows are read from the file
	ImportReady     = "ready"     // to be checked or run
	ImportChecking  = "checking"  // a dry run
	ImportRunning   = "running"
	ImportStopped   = "stopped" // a run to be resumed
	ImportDone      = "done"
	ImportUndoing   = "undoing"
	ImportUndone    = "undone"
	ImportFailed    = "failed" // the file cannot be read
)

// NewImport asks for an import.
type NewImport struct {
	Name      string `json:"name,omitzero" maxLength:"200" example:"bitly.csv" doc:"Names the import for people, such as the name of the file: at most 200 bytes. Default: import."`
	Format    string `json:"format,omitzero" maxLength:"32" default:"auto" example:"bitly" doc:"Format of the file. auto: recognised by its beginning."`
	Encoding  string `json:"encoding,omitzero" enum:"auto,utf-8,utf-16le,utf-16be,windows-1252" default:"auto" doc:"Encoding of the file. auto: UTF-8, or UTF-16 with a byte order mark. Windows-1252 is never assumed."`
	Domain    string `json:"domain,omitzero" maxLength:"253" example:"go.example.com" doc:"Host of the domain of rows without one. Default: the shared default domain."`
	TimeZone  string `json:"time_zone,omitzero" maxLength:"64" default:"UTC" example:"Europe/Berlin" doc:"Zone of times without one, by its IANA name."`
	Site      string `json:"site,omitzero" maxLength:"8192" example:"https://www.example.com" doc:"Site of the targets without a host, in files of redirects."`
	Raw       bool   `json:"raw,omitzero" doc:"Keep the cells of CSV as they are, with the apostrophe that exports write in front of formulas."`
	KeepCodes *bool  `json:"keep_codes,omitzero" default:"true" doc:"False: all links except patterns get new codes, and no aliases."`
	Dedupe    bool   `json:"dedupe,omitzero" doc:"Find the links of earlier imports instead of making them again: a link of the same code and target, or, of a row without a code, the link of the target."`
	SHA256    string `json:"sha256,omitzero" maxLength:"64" doc:"SHA-256 of the whole file in hexadecimal, by which a client finds the import again whose sending was cut off. It is not compared."`
}

// ImportMapping says which column of the file is which field of a link.
type ImportMapping struct {
	Columns map[string]string `json:"columns" doc:"Names of columns, each with the name of a field, such as original_url. Empty: the column is left out."`
	Tags    string            `json:"tags,omitzero" maxLength:"8" doc:"Separator of the tags of a cell, such as a comma."`
	Dates   string            `json:"dates,omitzero" maxLength:"16" example:"dmy" doc:"Notation of dates, such as iso, dmy, mdy, ymd, unix or unix_ms."`
}

// ImportChange changes an import before it runs. Fields that are left out keep their
// values.
type ImportChange struct {
	Mapping   *ImportMapping `json:"mapping,omitzero" doc:"The whole mapping."`
	Domain    *string        `json:"domain,omitzero" maxLength:"253" doc:"Host of the domain of rows without one. Empty: the shared default domain."`
	TimeZone  *string        `json:"time_zone,omitzero" maxLength:"64" doc:"Zone of times without one, by its IANA name."`
	KeepCodes *bool          `json:"keep_codes,omitzero" doc:"False: all links except patterns get new codes, and no aliases."`
	Dedupe    *bool          `json:"dedupe,omitzero" doc:"Find the links of earlier imports instead of making them again."`
}

// ReadImport says that the whole file of an import was sent.
type ReadImport struct {
	Parts  int    `json:"parts" minimum:"1" maximum:"10000" doc:"How many parts the file has."`
	SHA256 string `json:"sha256,omitzero" maxLength:"64" doc:"SHA-256 of the whole file in hexadecimal, which is compared. Default: it is not."`
}

// RunImport begins or resumes an import.
type RunImport struct {
	DryRun bool `json:"dry_run,omitzero" doc:"Count only: nothing is created."`
}

// Import is an import of links from a file.
type Import struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	State   string `json:"state" enum:"uploading,reading,ready,checking,running,stopped,done,undoing,undone,failed" doc:"uploading: parts of the file are awaited. reading: rows are read from them. ready: the import can be changed, checked and run. checking: a dry run. stopped: a run that can be resumed. failed: the file cannot be read, see problem."`
	Problem string `json:"problem,omitzero" doc:"Why the import has failed or was stopped; left out when a user stopped it."`

	Format    string `json:"format" doc:"As it was asked for, and from ready on as it was found."`
	Encoding  string `json:"encoding" doc:"As it was asked for, and from ready on as it was found."`
	Domain    string `json:"domain" doc:"Host of the domain of rows without one; empty: the shared default domain."`
	TimeZone  string `json:"time_zone"`
	Site      string `json:"site"`
	Raw       bool   `json:"raw"`
	KeepCodes bool   `json:"keep_codes"`
	Dedupe    bool   `json:"dedupe"`

	Separator string              `json:"separator,omitzero" doc:"Between the cells of a row; left out for a file without cells."`
	Columns   []string            `json:"columns" doc:"Names of the columns in the order of the file, without columns of personal data, which are not kept. Empty for a file without columns."`
	Suggested ImportMapping       `json:"suggested" doc:"The mapping that the names of the columns and the first rows suggest."`
	Mapping   ImportMapping       `json:"mapping" doc:"The mapping that counts: the suggested one until another one is set."`
	LeftOut   []string            `json:"left_out" doc:"Columns that become no field of a link, and columns of personal data."`
	Notes     []string            `json:"notes" doc:"What is true of many rows, such as an option that no link has."`
	Notations map[string][]string `json:"notations" doc:"By the name of each column of dates, the notations that fit all its dates."`
	Open      []string            `json:"open" doc:"What must be decided before the import can be checked or run, each as a sentence. Empty: nothing."`
	Sample    []ImportRow         `json:"sample,omitzero" doc:"The first ten rows; left out in lists."`

	SHA256   string        `json:"sha256,omitzero" doc:"As it was given when the import was made."`
	Bytes    int64         `json:"bytes" minimum:"0" doc:"Size of the file, or of the parts so far."`
	Parts    int           `json:"parts" minimum:"0" doc:"How many parts there are so far, from the first on without a hole; zero once the rows are read."`
	Rows     int64         `json:"rows" minimum:"0" doc:"How many rows were read so far."`
	Counts   ImportCounts  `json:"counts" doc:"Of the run."`
	Checked  *ImportCounts `json:"checked,omitzero" doc:"Of the last dry run with these settings; left out without one."`
	Speed    float64       `json:"rows_per_second,omitzero" minimum:"0" doc:"Of the last seconds; left out while nothing is under way."`
	TimeLeft float64       `json:"seconds_left,omitzero" minimum:"0" doc:"An estimate; left out while nothing is under way."`

	CreatedAt time.Time  `json:"created_at"`
	UpdatedAt time.Time  `json:"updated_at"`
	GoesAt    time.Time  `json:"goes_at" doc:"When the import and its rows go, a week after its last change. Its links stay."`
	UndoUntil *time.Time `json:"undo_until,omitzero" doc:"Until when the run can be undone; left out when there is nothing to undo."`
}

// ImportRow is a row of the file and the link that it becomes with the mapping.
type ImportRow struct {
	Line      int        `json:"line" minimum:"1" doc:"Line of the file in which the row begins."`
	Cells     []string   `json:"cells" doc:"In the order of the columns; the whole text for a file without columns."`
	Link      *NewLink   `json:"link,omitzero" doc:"The link; left out if the row is refused."`
	Aliases   []NewAlias `json:"aliases,omitzero"`
	CreatedAt *time.Time `json:"created_at,omitzero" doc:"When the link was made elsewhere."`
	Refused   string     `json:"refused,omitzero" doc:"Why the row is refused."`
}

// ImportCounts counts the rows of an import by their outcomes.
type ImportCounts struct {
	Created  int64 `json:"created" minimum:"0" doc:"Links that were created; of a dry run, that would be."`
	Found    int64 `json:"found" minimum:"0" doc:"Links that existed before, or that an earlier row of the file makes."`
	Refused  int64 `json:"refused" minimum:"0" doc:"Rows that are refused."`
	Left     int64 `json:"left" minimum:"0" doc:"Rows without an outcome so far."`
	NewCodes int64 `json:"new_codes" minimum:"0" doc:"Links of rows with a code that get another one, so that printed links with the code in the file lead nowhere."`
	Removed  int64 `json:"removed" minimum:"0" doc:"Created links that the undo deleted."`
	Kept     int64 `json:"kept" minimum:"0" doc:"Created links that the undo left alone, because somebody has changed or deleted them since."`

	Refusals []ImportRefusal `json:"refusals" doc:"The first refused rows, at most 20."`
}

// ImportRefusal says why a row is refused.
type ImportRefusal struct {
	Line   int    `json:"line" minimum:"1" doc:"Line of the file in which the row begins."`
	Reason string `json:"reason"`
}

// ImportList holds the imports of a workspace.
type ImportList struct {
	Imports []Import `json:"imports" doc:"Newest first."`
}
