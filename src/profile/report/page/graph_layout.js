// Places for the boxes of a graph: ranks from top to bottom, in several columns if the graph is long and narrow. It does
// not depend on the profile. A node is {reads: [indices of earlier nodes]}.

const kBoxWidth = 190, kBoxHeight = 42;
const kRankPitch = kBoxHeight + 26;        // from the top of one rank to that of the next
const kBesides = 14, kLaneWidth = 8;       // between neighbours; a lane leads an edge past a rank
const kMostLanes = 30000;                  // in graphs that would need more, edges do not avoid boxes
const kOrderSweeps = 4, kAlignSweeps = 6;

/** The rank of every node: below all that it reads, and directly above its first reader if it reads nothing. */
function ranksOf(nodes) {
  const ranks = nodes.map(() => 0), firstReader = nodes.map(() => Infinity);
  nodes.forEach((node, i) => node.reads.forEach((from) => ranks[i] = Math.max(ranks[i], ranks[from] + 1)));
  nodes.forEach((node, i) => node.reads.forEach((from) => firstReader[from] = Math.min(firstReader[from], ranks[i])));
  return ranks.map((rank, i) => nodes[i].reads.length || !Number.isFinite(firstReader[i]) ? rank : firstReader[i] - 1);
}

/**
 * The ranks as lists of places: {node, rank, width, above, below, x}. If a value is read further down, one lane leads
 * through the ranks between to all its readers. `chains` has, by node, its place and its lanes.
 */
function placesOf(nodes) {
  const ranks = ranksOf(nodes), lastReader = [...ranks];
  nodes.forEach((node, i) => node.reads.forEach((from) => lastReader[from] = Math.max(lastReader[from], ranks[i])));
  const lanes = lastReader.reduce((sum, last, i) => sum + Math.max(0, last - ranks[i] - 1), 0) <= kMostLanes;
  const rows = Array.from({length: 1 + ranks.reduce((most, rank) => Math.max(most, rank), 0)}, () => []);
  const link = (from, to) => (from.below.push(to), to.above.push(from));
  const chains = nodes.map((node, i) => {
    const chain = [{node: i, rank: ranks[i], width: kBoxWidth, above: [], below: [], x: 0}];
    for (let rank = ranks[i] + 1; lanes && rank < lastReader[i]; ++rank) {
      chain.push({node: null, rank, width: kLaneWidth, above: [], below: [], x: 0});
      link(chain[chain.length - 2], chain[chain.length - 1]);
    }
    chain.forEach((place) => rows[place.rank].push(place));
    return chain;
  });
  nodes.forEach((node, i) => node.reads.forEach((from) => link(chainAt(chains[from], ranks[i] - 1), chains[i][0])));
  return {rows, chains};
}

/** The place of a chain in a rank, or its last place above it. */
function chainAt(chain, rank) {
  return chain[Math.min(rank - chain[0].rank, chain.length - 1)];
}

/** Sorts every rank by the mean position of its neighbours above and below in turns, so that few edges cross. */
function orderRanks(rows) {
  const mean = (places, place) => places.length ? places.reduce((sum, other) => sum + other.at, 0) / places.length : place.at;
  const number = (row) => row.forEach((place, i) => place.at = i - (row.length - 1) / 2);
  rows.forEach(number);
  for (let sweep = 0; sweep < kOrderSweeps; ++sweep) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows : [...rows].reverse()) {
      const wanted = new Map(row.map((place) => [place, mean(down ? place.above : place.below, place)]));
      row.sort((a, b) => wanted.get(a) - wanted.get(b));
      number(row);
    }
  }
}

/** Lanes, and places that read nothing, hardly influence the positions of the others. */
function weightOf(place) {
  if (place.node === null) return 0.01;
  return place.above.length || place.rank === 0 ? 1 : 0.005;
}

/**
 * Moves the places of a rank as close to the wanted centres as their order and widths allow: least squares, by joining
 * neighbours that are in each other's way (pool adjacent violators).
 */
function alignRank(row, wanted) {
  const blocks = [];
  let offset = 0;
  row.forEach((place, i) => {
    if (i > 0) offset += (row[i - 1].width + place.width) / 2 + kBesides;
    place.offset = offset;
    blocks.push({sum: weightOf(place) * (wanted[i] - offset), weight: weightOf(place), count: 1});
    while (blocks.length > 1) {
      const last = blocks[blocks.length - 1], before = blocks[blocks.length - 2];
      if (before.sum / before.weight <= last.sum / last.weight) break;
      before.sum += last.sum, before.weight += last.weight, before.count += last.count;
      blocks.pop();
    }
  });
  let i = 0;
  for (const {sum, weight, count} of blocks) {
    for (const end = i + count; i < end; ++i) row[i].x = row[i].offset + sum / weight;
  }
}

/** Centres of all places: near those of their neighbours. */
function alignRanks(rows) {
  const centre = (near, own) => {
    let sum = 0, weights = 0;
    for (const other of near) {
      sum += weightOf(other) * other.x, weights += weightOf(other);
    }
    return near.length ? sum / weights : own;
  };
  rows.forEach((row) => alignRank(row, row.map(() => 0)));
  for (let sweep = 0; sweep < kAlignSweeps; ++sweep) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows : [...rows].reverse()) {
      alignRank(row, row.map((place) => centre(down ? place.above : place.below, place.x)));
    }
  }
}

const kColumnGap = 36, kTrack = 7, kLeastRanks = 6;  // a track leads an edge to the next column

/** Divides the ranks into `count` columns of about the same height, between ranks that few edges connect. */
function breaksOf(rows, count) {
  const edges = rows.map((row) => row.reduce((sum, place) => sum + place.above.length, 0));
  const starts = [0];
  while (starts.length < count) {
    const start = starts[starts.length - 1], ideal = start + Math.ceil((rows.length - start) / (count - starts.length + 1));
    let best = ideal;
    for (const at of [ideal - 1, ideal + 1, ideal - 2]) {
      if (at > start && at < rows.length && edges[at] < edges[best]) best = at;
    }
    if (!(best < rows.length)) break;
    starts.push(best);
  }
  return starts.map((first, c) => ({first, end: c + 1 < starts.length ? starts[c + 1] : rows.length,
    tracks: c + 1 < starts.length ? edges[starts[c + 1]] : 0}));
}

/** The columns for a room of width and height: as many as make it high enough and fit. They have left, shift and width. */
function columnsOf(rows, room) {
  const right = (row) => row.reduce((most, place) => Math.max(most, place.x + place.width / 2), -Infinity);
  const left = (row) => row.reduce((least, place) => Math.min(least, place.x - place.width / 2), Infinity);
  const wanted = Math.min(Math.ceil(rows.length * kRankPitch / room.height), Math.floor(rows.length / kLeastRanks), Math.ceil(room.width / kBoxWidth));
  for (let count = Math.max(1, wanted); ; --count) {
    let at = 0;
    const columns = breaksOf(rows, count);
    for (const column of columns) {
      const part = rows.slice(column.first, column.end);
      const from = part.reduce((least, row) => Math.min(least, left(row)), Infinity);
      column.width = part.reduce((most, row) => Math.max(most, right(row)), -Infinity) - from;
      column.left = at, column.shift = at - from;
      at += column.width + kColumnGap + column.tracks * kTrack;
    }
    const last = columns[columns.length - 1];
    if (count === 1 || last.left + last.width <= room.width) return columns;
  }
}

/** The layout of a graph: places in ranks and columns. fold(room) gives every place its left and top, and returns the size. */
function layoutOf(nodes) {
  const {rows, chains} = placesOf(nodes);
  orderRanks(rows);
  alignRanks(rows);
  const fold = (room) => {
    const columns = columnsOf(rows, room);
    const top = 10 + kTrack * columns.reduce((most, column) => Math.max(most, column.tracks), 0);
    columns.forEach((column, c) => {
      column.top = top;
      let track = 0;
      for (const place of rows[column.first]) place.tracks = new Map(c > 0 ? place.above.map((from) => [from, track++]) : []);
      for (let rank = column.first; rank < column.end; ++rank) {
        for (const place of rows[rank]) {
          Object.assign(place, {column, left: place.x + column.shift - place.width / 2, top: top + (rank - column.first) * kRankPitch});
        }
      }
    });
    const last = columns[columns.length - 1];
    const height = top + kRankPitch * columns.reduce((most, column) => Math.max(most, column.end - column.first), 0);
    return {width: last.left + last.width + 4, height: height - (kRankPitch - kBoxHeight) + 14 + top};
  };
  return {rows, chains, fold};
}

/** The path of an edge between two places: a curve downwards, or a track to the top of a later column. */
function edgePath(from, to) {
  const x = from.left + from.width / 2, y = from.top + kBoxHeight, toX = to.left + to.width / 2, toY = to.top;
  if (from.column === to.column) {
    if (Math.abs(x - toX) < 0.5) return `M${x} ${y}V${toY}`;
    const bend = Math.min(kRankPitch - kBoxHeight, toY - y);
    return `M${x} ${y}C${x} ${y + bend * 0.7} ${toX} ${y + bend * 0.3} ${toX} ${y + bend}V${toY}`;
  }
  const {column} = from, track = to.tracks?.get(from) ?? 0;
  const across = column.left + column.width + kColumnGap / 2 + track * kTrack, over = column.top - 8 - kTrack * track, r = 4;
  return `M${x} ${y}v${6 + track * 2}q0 ${r} ${r} ${r}H${across - r}q${r} 0 ${r} ${-r}V${over + r}q0 ${-r} ${r} ${-r}H${toX - r}q${r} 0 ${r} ${r}V${toY}`;
}

/** The path of the part of a chain that leads to a rank. */
function chainPath(chain, rank) {
  let path = "";
  for (let i = 1; i < chain.length && chain[i].rank <= rank; ++i) {
    path += `${edgePath(chain[i - 1], chain[i])}v${kBoxHeight}`;
  }
  return path;
}
