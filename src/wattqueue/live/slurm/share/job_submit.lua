-- WattQueue: every job carries watts, and waits for them where a controller is at work.
--
-- slurmctld calls slurm_job_submit for each submission and slurm_job_modify for each change, while it holds locks:
-- nothing here may wait. Each job gets as many `watts` licences as its nodes can draw, so that slurmctld alone, with
-- or without the controller, never admits more than the pool. Four things make the count a bound:
--   1. the number of nodes is computed as Slurm computes it (CPUs, memory, sockets, GPUs: nodes_needed, the twin of
--      wattqueue/live/slurm/sizing.py) and pinned as the job's maximum;
--   2. of several partitions the dearest counts;
--   3. a partition that the file of nodes does not name counts at the dearest node of the cluster, and so does every
--      partition where that file is missing or damaged;
--   4. users cannot change what the count was made from (slurm_job_modify).
-- Installed by `wattqueue live install`; the lines between the marks are written by it. They say what must hold without
-- the file of nodes (DATA), which the controller keeps as the cluster is (wattqueue/live/slurm/submit_data.py).
-- [[wattqueue settings
local VERSION = ""
local DATA = "" -- file of nodes and staff
local DEAREST = 0 -- watts of the dearest managed node
local OPERATORS = {}
local BEAT = ""
local AWAY_S = 0
local SITE = ""
local WHOLE_POOL_W = 0
local DOMAINS = {} -- licences of power domains
-- wattqueue settings]]

local LICENCE = "watts"
-- Under power domains a held job carries a licence that nobody can get. What pins it to nodes takes that away, so no
-- release alone starts it. Jobs are then held whether or not a controller is at work: `wattqueue live release` starts
-- those that are safe on any nodes.
local GATE = "watts_gate"
local NO_VAL, NO_VAL16, INFINITE, INFINITE16 = 4294967294, 65534, 4294967295, 65535
local USER_HELD = "wattqueue:user-held"
local HELD = "wattqueue:held"
-- fits the budget at a lower frequency only: never released by anyone but the controller
local NEEDS_CONTROLLER = "wattqueue:needs-controller"
-- A job that its user releases does not begin before so many seconds: the controller adopts it first,
-- or it would overtake the policy's order. Several rounds of a busy controller.
local ADOPT_S = 10

local site = nil
if SITE ~= "" then
  local chunk, problem = loadfile(SITE)
  if chunk == nil then error("wattqueue: the site's own script: " .. tostring(problem)) end
  -- the site's script defines the same two functions; keep them apart from ours
  local room = setmetatable({}, { __index = _G })
  if setfenv then setfenv(chunk, room) end
  chunk()
  site = room
end

-- The start time of a job that its user holds: the job keeps its place and carries on waiting for the controller, and a
-- release by the user frees nothing. Slurm has one hold per job, and that is the controller's.
local HOLD_UNTIL = 4102444800 -- 2100-01-01

local function given(value)
  return value ~= nil and value > 0 and value < 2 ^ 53 and value ~= NO_VAL and value ~= NO_VAL16
    and value ~= INFINITE and value ~= INFINITE16
end

-- Add a mark to an administrator's comment; what the site wrote there stays.
local function noted(comment, mark)
  if comment == nil or comment == "" then return mark end
  if string.find(comment, mark, 1, true) then return comment end
  return comment .. " " .. mark
end

local function has_mark(comment, mark)
  return string.find(comment or "", mark, 1, true) ~= nil
end

-- A controller is at work while its beat is young: "control SECONDS". One from the future was written by a clock that
-- was wrong, and would stay young until that time is over; clocks of two hosts differ by a few seconds.
local AHEAD_S = 10
local function at_work()
  local file = BEAT ~= "" and io.open(BEAT) or nil
  if file == nil then return false end
  local mode, at = string.match(file:read(64) or "", "^(%a+) (%d+)%s*$")
  file:close()
  local age_s = os.time() - (tonumber(at) or 0)
  return mode == "control" and age_s >= -AHEAD_S and age_s <= AWAY_S
end

-- The file of nodes. It is read by lines and never executed: whoever could write it would otherwise run code in slurmctld.
-- Its first line has a fixed length, and names version, time, size and checksum of the rest. Every length that is read and
-- every number is bounded.
local HEADER, HEADER_BYTES, MOST_BYTES = "^wattqueue%-submit 1 (%d+) (%d+) (%x+)\n$", 50, 4194304
local MOST_W, MOST_NODES, MOST = 10 ^ 9, 10 ^ 6, 10 ^ 15
local NOTHING = { whole = false, nodes = {}, free = {}, staff = {}, mb_per_cpu = 0, memory = true, gres_bound = true }
-- nodes: by partition, watts of its dearest node, least watts it can do with, nodes, shapes of its nodes; how many of
--   these nodes the power domains feed at the least watts (fed: now, ever: under limits to come; nil: all), and which one
--   holds back most (domain)
-- free: partitions without any managed node, or whose nodes are shared: their jobs carry no watts
-- staff: accounts with Slurm's operator or administrator level
-- mb_per_cpu, memory: DefMemPerCPU, and whether memory is a consumable resource
-- gres_bound: whether this Slurm refuses a job whose greatest number of nodes has fewer GPUs than it asks for
local data = NOTHING

local function number_of(text, most)
  local number = string.find(text or "", "^%d+$") and #text <= 16 and tonumber(text)
  return number and number <= most and number or nil
end

local SWITCH = { yes = true, no = false }
local LINES = {} -- by the first word of a line: takes the other words, and returns whether they were as expected
function LINES.memory(into, value)
  into.memory = SWITCH[value]
  return into.memory ~= nil
end
LINES["gres-bound"] = function(into, value)
  into.gres_bound = SWITCH[value]
  return into.gres_bound ~= nil
end
LINES["default-mb-per-cpu"] = function(into, value)
  into.mb_per_cpu = number_of(value, MOST)
  return into.mb_per_cpu ~= nil
end
function LINES.staff(into, value)
  local uid = number_of(value, MOST)
  if uid ~= nil then into.staff[uid] = true end
  return uid ~= nil
end
function LINES.free(into, name)
  if name ~= nil then into.free[name] = true end
  return name ~= nil
end
function LINES.partition(into, name, watts, least, size, held)
  local node = { watts = number_of(watts, MOST_W), least = number_of(least, MOST_W), size = number_of(size, MOST_NODES) }
  node.held, node.shapes = SWITCH[held], {}
  if node.watts == nil or node.least == nil or node.size == nil or node.held == nil then return false end
  into.nodes[name], into.last = node, node
  return true
end
function LINES.feeds(into, now, most, ...)
  into.last.fed, into.last.ever = number_of(now, MOST_NODES), number_of(most, MOST_NODES)
  into.last.domain = table.concat({ ... }, " ")
  return into.last.fed ~= nil and into.last.ever ~= nil
end
function LINES.shape(into, cpus, sockets, cores, mb, count, ...)
  local shape = { cpus = number_of(cpus, MOST), sockets = number_of(sockets, MOST), cores = number_of(cores, MOST) }
  shape.mb, shape.count, shape.gres = number_of(mb, MOST), number_of(count, MOST_NODES), {}
  if shape.cpus == nil or shape.sockets == nil or shape.cores == nil or shape.mb == nil then return false end
  if shape.count == nil and count ~= "-" then return false end
  for _, text in ipairs({ ... }) do
    local name, units = string.match(text, "^([%w_%-]+)=(%d+)$")
    if name == nil or number_of(units, MOST) == nil then return false end
    shape.gres[name] = number_of(units, MOST)
  end
  table.insert(into.last.shapes, shape)
  return true
end

local unpack = unpack or table.unpack

-- The figures of the lines behind the first one; nil where one of them is not as expected.
local function figures_of(body)
  local into = { whole = true, nodes = {}, free = {}, staff = {} }
  if string.sub(body, -5) ~= "\nend\n" then return nil end
  for line in string.gmatch(string.sub(body, 1, -5), "([^\n]*)\n") do
    local words = {}
    for word in string.gmatch(line, "[^ ]+") do table.insert(words, word) end
    local take = LINES[table.remove(words, 1) or ""]
    if take == nil or not take(into, unpack(words)) then return nil end
  end
  if into.memory == nil or into.gres_bound == nil or into.mb_per_cpu == nil then return nil end
  return into
end

local function adler32(text)
  local a, b, byte = 1, 0, string.byte
  for first = 1, #text, 4096 do
    for at = first, math.min(first + 4095, #text) do
      a = a + byte(text, at)
      b = b + a
    end
    a, b = a % 65521, b % 65521
  end
  return b * 65536 + a
end

local function checked(first, body)
  local _, bytes, sum = string.match(first, HEADER)
  if bytes == nil then return NOTHING, "is not of version 1" end
  if body == nil or #body ~= tonumber(bytes) or adler32(body) ~= tonumber(sum, 16) then return NOTHING, "is damaged" end
  local fine, found = pcall(figures_of, body)
  if not fine or found == nil then return NOTHING, "has a line that is not read here" end
  return found
end

-- Read the file again where its first line is another than at the call before, a damaged one once a second at most. Its
-- writer replaces it by a rename, so what is open is one version of it.
local first_line, read_s, told_s, problem = nil, 0, 0, nil
local function read_again()
  local file, missing = io.open(DATA)
  local first = file ~= nil and file:read(HEADER_BYTES) or nil
  local now_s = os.time()
  if first == nil then
    data, first_line, problem = NOTHING, nil, missing or "cannot be read"
  elseif first ~= first_line or (not data.whole and now_s ~= read_s) then
    first_line, read_s = first, now_s
    data, problem = checked(first, file:read(MOST_BYTES))
  end
  if file ~= nil then file:close() end
  if not data.whole and math.abs(now_s - told_s) >= 60 then
    told_s = now_s
    slurm.log_error("wattqueue: %s: %s: every partition counts at the dearest node", DATA, problem)
  end
end

-- Counts by name of "gres:gpu:a100:2,gres:gpu:1"; types of one name are summed. One piece without a count is one.
local function gres_of(text)
  local found, biggest = {}, 0
  for piece in string.gmatch(text or "", "[^,]+") do
    piece = string.gsub(string.gsub(piece, "%b()", ""), "^gres[:/]", "")
    local name = string.match(piece, "^[%w_%-]+")
    if name ~= nil and name ~= "cpu" and name ~= "mem" and name ~= "node" and name ~= "billing" then
      local count, unit = string.match(piece, "[:=](%d+)([kKmMgG]?)$")
      local scale = ({ k = 1024, m = 1024 ^ 2, g = 1024 ^ 3 })[string.lower(unit or "")] or 1
      found[name] = (found[name] or 0) + (tonumber(count) or 1) * scale
      biggest = math.max(biggest, found[name])
    end
  end
  return found, biggest
end

local function ceil(amount, each) return math.ceil(amount / each) end

local function or_one(value) return given(value) and value or 1 end

-- The requirements of a submission that decide its number of nodes.
local function needs_of(jd, part)
  local need = { per = or_one(jd.cpus_per_task) }
  need.tasks = math.max(or_one(jd.num_tasks), ceil(or_one(jd.min_cpus), need.per))
  need.total, need.units = gres_of(jd.tres_per_job)
  need.each = gres_of(jd.tres_per_task)
  need.node = gres_of(jd.tres_per_node or jd.gres)
  need.cpus_of, need.mb_of = gres_of(jd.cpus_per_tres), gres_of(jd.mem_per_tres)
  local mb = jd.min_mem_per_cpu
  if not given(mb) and not given(jd.min_mem_per_node) and next(need.mb_of) == nil then
    mb = part ~= nil and given(part.def_mem_per_cpu) and part.def_mem_per_cpu or data.mb_per_cpu
  end
  need.mb_per_cpu = given(mb) and mb or 0
  need.whole = part ~= nil and part.max_share == 0 -- OverSubscribe=EXCLUSIVE
  -- beyond MaxMemPerCPU Slurm gives a task more CPUs instead
  local cap = part ~= nil and part.max_mem_per_cpu or nil
  if given(cap) and need.mb_per_cpu > cap then
    local times = ceil(need.mb_per_cpu, cap)
    need.per, need.mb_per_cpu = need.per * times, ceil(need.mb_per_cpu, times)
  end
  -- tasks of a socket, or several of a core, together with GPUs: Slurm takes more nodes than either needs, by its release
  local by_socket = (given(jd.ntasks_per_socket) or (given(jd.ntasks_per_core) and jd.ntasks_per_core > 1))
    and (next(need.total) or next(need.each) or next(need.node)) ~= nil
  need.unknown = (jd.tres_per_socket or "") ~= "" or given(jd.ntasks_per_tres) or given(jd.ntasks_per_gpu) or by_socket
    or string.find(jd.features or "", "*", 1, true) ~= nil
  return need
end

-- Units of a generic resource that a node can give, each with the CPUs and the memory stated for it.
local function gres_on_a_node(need, shape, name)
  local have = shape.gres[name] or 0
  if given(need.cpus_of[name]) then have = math.min(have, math.floor(shape.cpus / need.cpus_of[name])) end
  if data.memory and given(need.mb_of[name]) and shape.mb > 0 then have = math.min(have, math.floor(shape.mb / need.mb_of[name])) end
  return have
end

-- Whether a node has the CPUs, cores, sockets and memory that a job asks of each of its nodes. Where memory is a
-- consumable resource, memory of a CPU or GPU counts for all of them on a node that the job gets as a whole.
local function serves(jd, need, shape)
  if given(jd.pn_min_cpus) and jd.pn_min_cpus > shape.cpus then return false end
  if shape.mb > 0 then
    if given(jd.min_mem_per_node) and jd.min_mem_per_node > shape.mb then return false end
    if need.mb_per_cpu * (data.memory and need.whole and shape.cpus or 1) > shape.mb then return false end
    for name, mb in pairs(data.memory and need.whole and need.mb_of or {}) do
      if mb * (shape.gres[name] or 0) > shape.mb then return false end
    end
    for name, cpus in pairs(need.whole and need.cpus_of or {}) do
      if cpus * (shape.gres[name] or 0) > shape.cpus then return false end
    end
  end
  if shape.sockets > 0 and given(jd.sockets_per_node) and jd.sockets_per_node > shape.sockets then return false end
  if shape.cores > 0 then
    if given(jd.cores_per_socket) and jd.cores_per_socket * shape.sockets > shape.cores then return false end
    if given(jd.threads_per_core) and jd.threads_per_core * shape.cores > shape.cpus then return false end
  end
  return true
end

-- Tasks that a node can hold; 0 where it cannot hold one, or lacks a resource that the job names.
local function tasks_on_a_node(jd, need, shape)
  if not serves(jd, need, shape) then return 0 end
  local cpus = shape.cpus
  if given(jd.threads_per_core) and shape.cores > 0 then cpus = math.min(cpus, shape.cores * jd.threads_per_core) end
  local tasks = math.floor(cpus / need.per)
  if data.memory and need.mb_per_cpu > 0 and shape.mb > 0 then
    tasks = math.min(tasks, math.floor(shape.mb / (need.mb_per_cpu * need.per)))
  end
  if given(jd.ntasks_per_node) then tasks = math.min(tasks, jd.ntasks_per_node) end
  if given(jd.ntasks_per_socket) and shape.sockets > 0 then
    tasks = math.min(tasks, jd.ntasks_per_socket * shape.sockets)
  end
  if given(jd.ntasks_per_core) and shape.cores > 0 then tasks = math.min(tasks, jd.ntasks_per_core * shape.cores) end
  for name, count in pairs(need.each) do
    tasks = math.min(tasks, math.floor(gres_on_a_node(need, shape, name) / count))
    if given(jd.ntasks_per_node) and jd.ntasks_per_node * count > (shape.gres[name] or 0) then return 0 end
  end
  for name, count in pairs(need.node) do
    if gres_on_a_node(need, shape, name) < count then return 0 end
  end
  for name in pairs(need.total) do
    if gres_on_a_node(need, shape, name) < 1 then return 0 end
  end
  return tasks
end

-- Nodes that Slurm needs for a job in a partition: the most over the shapes that can hold a task of it.
-- Where that cannot be computed: as many nodes as tasks, or units of a resource, since no node stays empty. The second
-- result is this upper bound.
local function nodes_needed(jd, node, part)
  local need = needs_of(jd, part)
  local upper = math.max(1, math.min(math.max(need.tasks, need.units), node.size))
  if need.unknown then return upper, upper end
  local most = 0
  for _, shape in ipairs(node.shapes) do
    local each = tasks_on_a_node(jd, need, shape)
    if each > 0 then
      most = math.max(most, ceil(need.tasks, each))
      for name, count in pairs(need.total) do most = math.max(most, ceil(count, gres_on_a_node(need, shape, name))) end
    end
  end
  return most > 0 and math.min(most, node.size) or upper, upper
end

-- Whether Slurm would never start a job that needs so many nodes with a maximum of nodes stated: it lowers a stated one to
-- the units of a resource that the whole job asks for (-n40 --gpus=1), and gives more nodes where none is.
local function bears_no_maximum(jd, nodes)
  for _, count in pairs((gres_of(jd.tres_per_job))) do
    if count < nodes then return true end
  end
  return false
end

local function default_partition(parts)
  for name, part in pairs(parts) do
    if part.flag_default == 1 then return name end
  end
end

-- Names of nodes ("n[1-3,05],m1") as a set, and their number; nil where the list has a form that is not read here.
local function nodes_of(text)
  local found, count = {}, 0
  local function add(name)
    if not found[name] then count = count + 1 end
    found[name] = true
  end
  for prefix, list, suffix in string.gmatch(text .. ",", "([^,%[%]]*)%[?([^%[%]]-)%]?([^,%[%]]*),") do
    if suffix ~= "" then return nil end
    if list == "" then
      if prefix ~= "" then add(prefix) end
    else
      for piece in string.gmatch(list, "[^,]+") do
        local low, high = string.match(piece, "^(%d+)%-?(%d*)$")
        if low == nil then return nil end
        for number = tonumber(low), tonumber(high ~= "" and high or low) do
          add(prefix .. string.format("%0" .. #low .. "d", number))
        end
      end
    end
  end
  return found, count
end

-- Nodes of a partition that the job may get by their names (-w, -x), at most. The second result is whether those that it
-- must get are among them: all, or any where it has fewer tasks than names, of which Slurm takes those that it can.
local function by_name(jd, part)
  local size = part.total_nodes
  local wanted, out = (jd.req_nodes or ""), (jd.exc_nodes or "")
  if wanted == "" and out == "" then return size, true end
  local members = nodes_of(part.nodes or "")
  local must, named = nodes_of(wanted)
  local never = nodes_of(out)
  if members == nil or must == nil or never == nil then return size, true end
  for name in pairs(never) do
    if members[name] then size = size - 1 end
  end
  local there = 0
  for name in pairs(must) do
    if members[name] and not never[name] then there = there + 1 end
  end
  return size, there == named or (there > 0 and or_one(jd.num_tasks) < named)
end

-- Whether the nodes of a partition, all of them free, could hold the job. Slurm examines that for each submission but
-- those of held jobs, and refuses what cannot start ("Requested node configuration is not available"); a job that is held
-- for the controller, or whose number of nodes is pinned, would wait for ever. True in every case of doubt: nodes that are not as the file
-- says, or that sinfo does not list (FUTURE). What can change while Slurm runs (features) is not looked at.
local function could_hold(jd, name, parts)
  local node, part = data.nodes[name], parts[name]
  if node == nil or part == nil or part.total_nodes ~= node.size then return true end
  local named, there = by_name(jd, part)
  if not there then return false end
  local need = needs_of(jd, part)
  local fitting, tasks, each = 0, 0, {}
  local most = given(jd.max_nodes) and jd.max_nodes or node.size
  for _, shape in ipairs(node.shapes) do
    if shape.count == nil then return true end
    local holds = tasks_on_a_node(jd, need, shape)
    if holds > 0 then
      fitting = fitting + shape.count
      table.insert(each, { holds = holds, shape = shape })
    end
  end
  fitting = math.min(fitting, named)
  if fitting < or_one(jd.min_nodes) then return false end
  -- what cannot be computed (need.unknown) only lowers what a node holds
  table.sort(each, function(a, b) return a.holds > b.holds end)
  local left = math.min(most, fitting)
  for _, one in ipairs(each) do
    local count = math.min(left, one.shape.count)
    left, tasks = left - count, tasks + count * one.holds
  end
  -- with --overcommit a CPU serves several tasks
  local wanted = or_one(jd.min_cpus) < or_one(jd.num_tasks) * need.per and ceil(or_one(jd.min_cpus), need.per) or need.tasks
  if tasks < wanted then return false end
  for resource, count in pairs(need.total) do
    local have, best = 0, 0
    for _, one in ipairs(each) do
      local units = gres_on_a_node(need, one.shape, resource)
      have, best = have + one.shape.count * units, math.max(best, units)
    end
    if have < count or (data.gres_bound and best * most < count) then return false end
  end
  for resource, count in pairs(need.each) do -- of each task, whatever shares a CPU
    local have = 0
    for _, one in ipairs(each) do
      have = have + one.shape.count * math.floor(gres_on_a_node(need, one.shape, resource) / count)
    end
    if have < or_one(jd.num_tasks) then return false end
  end
  return true
end

-- Whether any partition that the job names could hold it.
local function is_possible(jd, parts)
  local any = false
  for name in string.gmatch(jd.partition or default_partition(parts) or "", "[^,]+") do
    any = any or could_hold(jd, name, parts)
  end
  return any
end

-- Least and greatest number of nodes that the job can take in a partition, and whether that greatest number must not be
-- stated to Slurm. Without the file of nodes a job may do with fewer nodes than are counted.
local function node_range(jd, node, part)
  local needed, upper = nodes_needed(jd, node, part)
  local count = math.max(or_one(jd.min_nodes), needed)
  local least = data.whole and count or or_one(jd.min_nodes)
  if given(jd.max_nodes) then return math.min(least, jd.max_nodes), jd.max_nodes, false end
  if bears_no_maximum(jd, count) then return least, math.max(count, upper), true end
  return least, count, false
end

-- What a partition counts: as the file says; as the dearest node where it says nothing; nil where no node is managed.
local function counted(name, parts)
  if data.nodes[name] ~= nil then return data.nodes[name] end
  if data.free[name] or DEAREST == 0 then return nil end
  local part = parts[name]
  local size = part ~= nil and given(part.total_nodes) and part.total_nodes or NO_VAL16
  local shapes = {} -- its nodes are not known, but they are among the managed ones
  for _, node in pairs(data.nodes) do
    for _, shape in ipairs(node.shapes) do table.insert(shapes, shape) end
  end
  return { watts = DEAREST, least = DEAREST, held = false, size = size, shapes = shapes }
end

-- Over the partitions that the job names: watts of the least and of the greatest number of nodes, that greatest
-- number, the least watts the job can do with, whether the controller schedules one of them, and whether the number can
-- be pinned. The greatest number of any partition is pinned for all of them, so it counts in each of them, as far as that
-- partition has nodes.
local function declared(jd, parts)
  local low, high, most, dear, least, ours, loose = 0, 0, 0, 0, nil, false, false
  local named = {}
  for name in string.gmatch(jd.partition or default_partition(parts) or "", "[^,]+") do
    local node = counted(name, parts)
    if node ~= nil then
      -- nodes may have been added since the file was written
      local part = parts[name]
      local size = part ~= nil and given(part.total_nodes) and part.total_nodes or node.size
      node = setmetatable({ size = size }, { __index = node })
      local few, many, unpinned = node_range(jd, node, parts[name])
      loose = loose or unpinned
      low, most, dear = math.max(low, few * node.watts), math.max(most, many), math.max(dear, node.watts)
      least = math.min(least or few * node.least, few * node.least)
      ours = ours or node.held
      table.insert(named, { node = node, many = many })
    end
  end
  for _, one in ipairs(named) do
    high = math.max(high, math.max(one.many, math.min(most, one.node.size)) * one.node.watts)
  end
  return { low = low, high = high, most = most, dear = dear, least = least, ours = ours, loose = loose }
end

-- What is said to a user about the power domains, and whether none of the partitions ever feeds the job; nil where one feeds it
-- now. A partition that the file does not name feeds it.
local function hungry(jd, parts)
  local text, never = nil, true
  for name in string.gmatch(jd.partition or default_partition(parts) or "", "[^,]+") do
    local node = data.nodes[name]
    local few = node ~= nil and node.fed ~= nil and node_range(jd, node, parts[name]) or 0
    if few == 0 or few <= node.fed then return nil end
    local limits = string.format("under power domain %s a job has %d nodes of partition %s at most", node.domain, node.fed, name)
    if few <= node.ever then
      text, never = string.format("%s now, this one waits for %d", limits, few), false
    elseif never then
      text = string.format("%s, this one needs %d", limits, few)
    end
  end
  return text, never
end

-- Whether one of these partitions (a list as in a submission) holds managed nodes.
local function counts(partition, parts)
  return declared({ partition = partition }, parts).most > 0
end

-- A list of licences with these watts in place of any others; nil for none.
local function with_watts(licences, watts)
  local kept = {}
  for piece in string.gmatch(licences or "", "[^,;]+") do -- 26.05 prints and takes both
    local name = string.match(piece, "^[^:=(]*")
    if name ~= LICENCE and name ~= GATE and not DOMAINS[name] then table.insert(kept, piece) end
  end
  if watts ~= nil then
    table.insert(kept, string.format("%s:%d", LICENCE, watts))
    if next(DOMAINS) ~= nil then table.insert(kept, GATE .. ":1") end
  end
  return table.concat(kept, ",")
end

local function names_watts(licences)
  return string.match(licences or "", "%f[%w]" .. LICENCE .. "%f[^%w]") ~= nil
end

-- Watts of the components of the heterogeneous job that is being submitted. slurmctld submits them one after the
-- other, under one lock; the first has offset 0. All start together or none: a sum beyond the pool never starts, and
-- backfill with bf_licenses reserves licences for each component, so that nothing else starts either.
--
-- Slurm accepts licences on the first component alone ("license request allowed only on leader job": srun on every
-- release, sbatch on newer ones). The others get theirs from the controller, so all of them wait for it.
local components_w = 0

local function with_components(component, watts)
  if component == nil or component == 0 then components_w = 0 end
  return components_w + watts
end

-- The number of a component, nil for a plain job.
local function component_of(jd)
  local offset = jd.het_job_offset
  if offset == nil or offset == NO_VAL then return nil end
  return offset
end

-- What a user writes into a comment about load targets (wattqueue/live/consent_tags.py reads it, and decides). A wrong tag is
-- no consent: its user learns that here, and the job is submitted all the same.
local NUMBER = "^%d+%.?%d*$"
local function is_limit(name, value)
  local figure = string.match(value, NUMBER) ~= nil and string.sub(value, -1) ~= "." and tonumber(value)
  if name == "slowdown" then return figure and figure >= 1 end
  if name == "price" then return figure and figure >= 0 end
  if name == "checkpoint" then return figure and figure >= 1 end
  return name == "until" and string.match(value, "^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d[%d:Z+-]*$") ~= nil
end

local function is_tag(tag)
  if tag == "wattqueue:no-consent" then return true end
  local limits = string.match(tag, "^wattqueue:consent(.*)$")
  if limits == nil then return false end
  local seen = {}
  local left = string.gsub(limits, ",(%l+)=([^,]+)", function(name, value)
    if seen[name] or not is_limit(name, value) then return nil end
    seen[name] = true
    return ""
  end)
  return left == ""
end

local function look_at_consent(comment)
  local tags, wrong = 0, nil
  for word in string.gmatch(comment or "", "%S+") do
    if string.sub(word, 1, 10) == "wattqueue:" and word ~= "wattqueue:" then
      tags = tags + 1
      if not is_tag(word) then wrong = word end
    end
  end
  if wrong ~= nil or tags > 1 then
    local text = "wattqueue: the comment states no consent to load targets, this job is neither slowed down nor parked. "
    slurm.log_user(text .. "Write one tag: wattqueue:consent[,slowdown=1.5][,until=2026-11-23T08:00][,price=2][,checkpoint=600] or wattqueue:no-consent")
  end
end

local IMPOSSIBLE = slurm.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE or 2014 -- "Requested node configuration is not available"

function slurm_job_submit(jd, parts, uid)
  read_again()
  if site ~= nil and site.slurm_job_submit ~= nil then
    local answer = site.slurm_job_submit(jd, parts, uid)
    if answer ~= slurm.SUCCESS then return answer end
  end
  local job = declared(jd, parts)
  local component = component_of(jd)
  if job.most == 0 then
    with_components(component, 0) -- a first component begins another job, also where it carries no watts itself
    if names_watts(jd.licenses) then jd.licenses = with_watts(jd.licenses, nil) end -- a user's own would take the pool
    return slurm.SUCCESS
  end
  -- scontrol refuses to bind a first component to nodes, and what components are given later is not tested
  if component ~= nil and next(DOMAINS) ~= nil then
    slurm.log_user("wattqueue: under power domains no job of several components can start: submit them as single jobs")
    return slurm.ERROR
  end
  look_at_consent(jd.comment)
  local working = (at_work() or next(DOMAINS) ~= nil) and job.ours
  if not is_possible(jd, parts) then
    slurm.log_user("wattqueue: no nodes of the partition could ever serve this job, if all of them were free")
    return IMPOSSIBLE
  end
  local limits, never = hungry(jd, parts)
  if limits ~= nil then slurm.log_user("wattqueue: " .. limits) end
  if limits ~= nil and never then return slurm.ERROR end
  local watts, most = job.high, job.most
  if WHOLE_POOL_W > 0 and watts > WHOLE_POOL_W and job.low <= WHOLE_POOL_W and job.dear > 0 and not job.loose then
    -- a range of nodes of which only the upper part exceeds the budget: take as many as fit
    most = math.min(most, math.max(math.floor(WHOLE_POOL_W / job.dear), or_one(jd.min_nodes)))
    -- which nodes that are is not known without the file: all of it is the most that they were counted for with it
    watts = math.min(watts, data.whole and math.max(most * job.dear, job.low) or WHOLE_POOL_W)
  end
  local together = with_components(component, watts)
  local too_much = WHOLE_POOL_W > 0 and watts > WHOLE_POOL_W
  if WHOLE_POOL_W > 0 and together > math.max(watts, WHOLE_POOL_W) then
    local text = "wattqueue: the components of this job draw up to %d W, the whole budget is %d W"
    slurm.log_user(string.format(text, together, WHOLE_POOL_W))
    return slurm.ERROR
  end
  -- Slurm alone places a component: on no fewer watts than are counted
  if too_much and (component ~= nil or job.least > WHOLE_POOL_W or not working) then
    local text = "wattqueue: %d nodes draw up to %d W in the budget's terms, the whole budget is %d W"
    slurm.log_user(string.format(text, most, watts, WHOLE_POOL_W))
    return slurm.ERROR
  end
  components_w = together
  if component == nil or component == 0 then
    jd.licenses = with_watts(jd.licenses, too_much and WHOLE_POOL_W or watts)
  end
  -- without a maximum Slurm may give more nodes than were counted (--gpus spread over many nodes)
  if not job.loose and (not given(jd.max_nodes) or jd.max_nodes > most) then jd.max_nodes = most end
  if component ~= nil then
    -- a hold of its user is a start time: a release may not free what carries no watts yet
    if jd.priority == 0 then jd.begin_time = HOLD_UNTIL end
    jd.admin_comment = noted(jd.admin_comment, NEEDS_CONTROLLER)
    jd.priority = 0
  elseif working then
    local mark = jd.priority == 0 and USER_HELD or too_much and NEEDS_CONTROLLER or HELD
    jd.admin_comment = noted(jd.admin_comment, mark)
    jd.priority = 0
  end
  return slurm.SUCCESS
end

local function may(uid)
  return uid == 0 or OPERATORS[uid] == true or data.staff[uid] == true
end

-- scontrol of Slurm 22.05 prints the text of the error code alone, newer ones ours as well.
local function refuse(text, code)
  slurm.log_user("wattqueue: " .. text)
  return code
end
local BAD_LICENCE = slurm.ESLURM_INVALID_LICENSES or 2048 -- "Invalid license specification"
local POLICY = slurm.ESLURM_ACCOUNTING_POLICY or 2050 -- "Job violates accounting/QOS policy (...)"
local IS_HELD = 2042 -- "Job is in held state, pending scheduler release"

-- Whether a change frees a held job: a release, a priority, or a nice value (22.05 releases a held job for one).
local function frees(jd, rec)
  local priority = jd.priority ~= nil and jd.priority ~= NO_VAL and jd.priority ~= 0
  return rec.priority == 0 and (priority or (jd.nice ~= nil and jd.nice ~= NO_VAL))
end

-- What a change leaves as it is, by the width of Slurm's field, the same from 22.05 to 26.05. Every other value changes
-- the job's size: 0 as well (NumNodes=0 gives the nodes of a running job to the one that it expands) and INFINITE
-- (NumNodes=ALL). A field that a release lacks is nil.
local UNSET = {
  min_nodes = NO_VAL, max_nodes = NO_VAL, min_cpus = NO_VAL, max_cpus = NO_VAL, num_tasks = NO_VAL,
  cpus_per_task = NO_VAL16, pn_min_cpus = NO_VAL16, ntasks_per_node = NO_VAL16, ntasks_per_socket = NO_VAL16,
  ntasks_per_core = NO_VAL16, ntasks_per_tres = NO_VAL16, ntasks_per_gpu = NO_VAL16, sockets_per_node = NO_VAL16,
  cores_per_socket = NO_VAL16, threads_per_core = NO_VAL16, shared = NO_VAL16, core_spec = NO_VAL16,
  thread_spec = NO_VAL16, ntasks_per_board = 0, boards_per_node = 0, sockets_per_board = 0, segment_size = 0,
}
-- Fields that are nil where a change does not name them.
local SIZES = {
  "min_mem_per_cpu", "min_mem_per_node", "gres", "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task",
  "cpus_per_tres", "mem_per_tres", "partition",
}

-- Whether a change is one of the job's nodes, CPUs, tasks, memory, generic resources or partition.
local function changes_size(jd)
  for name, unset in pairs(UNSET) do
    local value = jd[name]
    if value ~= nil and value ~= unset then return true end
  end
  for _, name in ipairs(SIZES) do
    if jd[name] ~= nil then return true end
  end
  return false
end

function slurm_job_modify(jd, rec, parts, uid)
  read_again()
  if site ~= nil and site.slurm_job_modify ~= nil then
    local answer = site.slurm_job_modify(jd, rec, parts, uid)
    if answer ~= slurm.SUCCESS then return answer end
  end
  if jd.comment ~= nil then look_at_consent(jd.comment) end
  local component = given(rec.het_job_id)
  local managed = component or string.match(rec.licenses or "", "%f[%w]" .. LICENCE .. ":") ~= nil
  local bare = not names_watts(rec.licenses) and not names_watts(jd.licenses)
  -- administrators as well: what would start a job that nothing counts
  if may(uid) and bare and component and frees(jd, rec) and counts(rec.partition, parts) then
    return refuse("the controller has not given this component its watts yet, without which nothing counts it", IS_HELD)
  end
  if bare and jd.partition ~= nil and counts(jd.partition, parts) and not (may(uid) and counts(rec.partition, parts)) then
    return refuse("jobs of that partition carry watts: cancel the job and submit it there", POLICY)
  end
  if not may(uid) and not managed and names_watts(jd.licenses) then
    return refuse("the licence watts is set by the power budget", BAD_LICENCE)
  end
  if may(uid) or not managed then return slurm.SUCCESS end
  if jd.licenses ~= nil then
    return refuse("licences of this job are set by the power budget", BAD_LICENCE)
  end
  -- a list of nodes shrinks a job that runs
  if changes_size(jd) or (jd.req_nodes ~= nil and rec.job_state ~= nil and rec.job_state % 256 ~= 0) then
    return refuse("size and partition stand in the power budget: cancel the job and submit it again", POLICY)
  end
  local held = rec.priority == 0
  -- its licences may be the watts of the nodes that the controller chose
  if (next(DOMAINS) ~= nil or (not held and at_work())) and (jd.req_nodes ~= nil or jd.exc_nodes ~= nil) then
    return refuse("its nodes stand in the power budget", POLICY)
  end
  -- without any mark of ours (the site changed the comment) a release is let through as well: the job
  -- carries its watts, and the controller adopts it before it begins
  local ours = component or has_mark(rec.admin_comment, HELD) or has_mark(rec.admin_comment, NEEDS_CONTROLLER)
  if jd.priority == 0 then -- scontrol hold
    jd.priority, jd.begin_time = NO_VAL, HOLD_UNTIL
    return slurm.SUCCESS
  end
  if jd.priority == INFINITE and (not held or (ours and at_work())) then -- scontrol release, of what the user held
    jd.priority, jd.begin_time = NO_VAL, os.time()
    return slurm.SUCCESS
  end
  local watts = tonumber(string.match(rec.licenses or "", LICENCE .. ":(%d+)") or 0)
  if jd.priority == INFINITE and held and not ours and (WHOLE_POOL_W == 0 or watts < WHOLE_POOL_W) then
    if at_work() then jd.begin_time = math.max(os.time() + ADOPT_S, rec.begin_time or 0) end
    return slurm.SUCCESS
  end
  if jd.priority ~= nil and jd.priority ~= NO_VAL then
    return refuse("this job waits for its watts, nobody holds it: wattqueue live why " .. tostring(rec.job_id), IS_HELD)
  end
  -- Slurm 22.05 releases a held job, even one held by an administrator, when its nice value changes
  if held and jd.nice ~= nil and jd.nice ~= NO_VAL then
    return refuse("the nice value of a held job cannot be changed", IS_HELD)
  end
  return slurm.SUCCESS
end

return slurm.SUCCESS
