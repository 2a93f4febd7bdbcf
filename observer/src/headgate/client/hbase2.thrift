// The part of HBase's Thrift2 interface that the client speaks. Field ids and names are the server's.

struct TTimeRange { 1: required i64 minStamp, 2: required i64 maxStamp }

struct TColumn { 1: required binary family, 2: optional binary qualifier, 3: optional i64 timestamp }

struct TColumnValue {
  1: required binary family,
  2: required binary qualifier,
  3: required binary value,
  4: optional i64 timestamp,
  6: optional byte type
}

struct TColumnIncrement { 1: required binary family, 2: required binary qualifier, 3: optional i64 amount }

struct TResult { 1: optional binary row, 2: required list<TColumnValue> columnValues }

struct TGet {
  1: required binary row,
  2: optional list<TColumn> columns,
  4: optional TTimeRange timeRange,
  5: optional i32 maxVersions
}

struct TPut {
  1: required binary row,
  2: required list<TColumnValue> columnValues,
  3: optional i64 timestamp,
  5: optional map<binary, binary> attributes
}

struct TDelete {
  1: required binary row,
  2: optional list<TColumn> columns,
  3: optional i64 timestamp,
  4: optional i32 deleteType,
  6: optional map<binary, binary> attributes
}

struct TIncrement {
  1: required binary row,
  2: required list<TColumnIncrement> columns,
  4: optional map<binary, binary> attributes,
  7: optional bool returnResults
}

struct TAppend {
  1: required binary row,
  2: required list<TColumnValue> columns,
  3: optional map<binary, binary> attributes,
  6: optional bool returnResults
}

struct TScan {
  1: optional binary startRow,
  2: optional binary stopRow,
  3: optional list<TColumn> columns,
  4: optional i32 caching,
  5: optional i32 maxVersions,
  6: optional TTimeRange timeRange,
  7: optional binary filterString,
  9: optional map<binary, binary> attributes,
  11: optional bool reversed,
  15: optional i32 limit
}

struct TMutation { 1: optional TPut put, 2: optional TDelete deleteSingle }

struct TRowMutations { 1: required binary row, 2: required list<TMutation> mutations }

struct THRegionInfo {
  1: required i64 regionId,
  2: required binary tableName,
  3: optional binary startKey,
  4: optional binary endKey
}

struct TServerName { 1: required string hostName, 2: optional i32 port, 3: optional i64 startCode }

struct THRegionLocation { 1: required TServerName serverName, 2: required THRegionInfo regionInfo }

struct TTableName { 1: optional binary ns, 2: required binary qualifier }

struct TColumnFamilyDescriptor {
  1: required binary name,
  9: optional i32 keepDeletedCells,
  10: optional i32 maxVersions,
  13: optional i32 timeToLive
}

struct TTableDescriptor { 1: required TTableName tableName, 2: optional list<TColumnFamilyDescriptor> columns }

exception TIOError { 1: optional string message, 2: optional bool canRetry }

exception TIllegalArgument { 1: optional string message }

service THBaseService {
  TResult get(1: required binary table, 2: required TGet tget) throws (1: TIOError io)

  list<TResult> getScannerResults(1: required binary table, 2: required TScan tscan, 3: i32 numRows)
    throws (1: TIOError io)

  void put(1: required binary table, 2: required TPut tput) throws (1: TIOError io)

  void putMultiple(1: required binary table, 2: required list<TPut> tputs) throws (1: TIOError io)

  void deleteSingle(1: required binary table, 2: required TDelete tdelete) throws (1: TIOError io)

  list<TDelete> deleteMultiple(1: required binary table, 2: required list<TDelete> tdeletes)
    throws (1: TIOError io)

  bool checkAndPut(
    1: required binary table, 2: required binary row, 3: required binary family,
    4: required binary qualifier, 5: binary value, 6: required TPut tput) throws (1: TIOError io)

  bool checkAndDelete(
    1: required binary table, 2: required binary row, 3: required binary family,
    4: required binary qualifier, 5: binary value, 6: required TDelete tdelete) throws (1: TIOError io)

  bool checkAndMutate(
    1: required binary table, 2: required binary row, 3: required binary family,
    4: required binary qualifier, 5: required i32 compareOp, 6: binary value,
    7: required TRowMutations rowMutations) throws (1: TIOError io)

  TResult increment(1: required binary table, 2: required TIncrement tincrement) throws (1: TIOError io)

  TResult append(1: required binary table, 2: required TAppend tappend) throws (1: TIOError io)

  void mutateRow(1: required binary table, 2: required TRowMutations trowMutations)
    throws (1: TIOError io)

  list<THRegionLocation> getAllRegionLocations(1: required binary table) throws (1: TIOError io)

  bool tableExists(1: TTableName tableName) throws (1: TIOError io)

  bool isTableDisabled(1: required TTableName tableName) throws (1: TIOError io)

  TTableDescriptor getTableDescriptor(1: required TTableName table) throws (1: TIOError io)

  list<TTableName> getTableNamesByPattern(1: optional string regex, 2: required bool includeSysTables)
    throws (1: TIOError io)

  void createTable(1: required TTableDescriptor desc, 2: optional list<binary> splitKeys)
    throws (1: TIOError io)

  void addColumnFamily(1: required TTableName tableName, 2: required TColumnFamilyDescriptor column)
    throws (1: TIOError io)

  void deleteColumnFamily(1: required TTableName tableName, 2: required binary column)
    throws (1: TIOError io)

  void enableTable(1: required TTableName tableName) throws (1: TIOError io)

  void disableTable(1: required TTableName tableName) throws (1: TIOError io)

  void deleteTable(1: required TTableName tableName) throws (1: TIOError io)

  void truncateTable(1: required TTableName tableName, 2: required bool preserveSplits)
    throws (1: TIOError io)
}
