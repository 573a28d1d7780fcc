-- WattQueue: every job carries watts, and waits for them where a controller is at work.
-- Installed by `wattqueue live install`; the lines between the marks are written by it.
-- [[wattqueue settings
local NODE = {} -- by partition: watts a node declares, least watts it can do with, CPUs
local OPERATORS = {}
local BEAT = ""
local AWAY_S = 0
local SITE = ""
local WHOLE_POOL_W = 0
-- wattqueue settings]]

local LICENCE = "watts"
local NO_VAL, NO_VAL16, INFINITE = 4294967294, 65534, 4294967295
local USER_HELD = "wattqueue:user-held"
local HELD = "wattqueue:held"
-- fits the budget at a lower frequency alone: never released by anyone but the controller
local NEEDS_CONTROLLER = "wattqueue:needs-controller"

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

local function given(value)
  return value ~= nil and value ~= NO_VAL and value ~= NO_VAL16 and value ~= INFINITE and value > 0
end

-- A controller is at work while its beat is young: "control SECONDS".
local function at_work()
  local file = BEAT ~= "" and io.open(BEAT) or nil
  if file == nil then return false end
  local mode, at = string.match(file:read("*l") or "", "^(%a+) (%d+)$")
  file:close()
  return mode == "control" and os.time() - tonumber(at) <= AWAY_S
end

-- Most nodes the job can take in a partition of so many CPUs a node.
local function most_nodes(jd, cpus)
  if given(jd.max_nodes) then return jd.max_nodes end
  local nodes = given(jd.min_nodes) and jd.min_nodes or 1
  local tasks = given(jd.num_tasks) and jd.num_tasks or 1
  local each = given(jd.cpus_per_task) and jd.cpus_per_task or 1
  local wanted = math.max(tasks * each, given(jd.min_cpus) and jd.min_cpus or 1)
  nodes = math.max(nodes, math.ceil(wanted / cpus))
  if given(jd.ntasks_per_node) then nodes = math.max(nodes, math.ceil(tasks / jd.ntasks_per_node)) end
  return nodes
end

local function default_partition(parts)
  for name, part in pairs(parts) do
    if part.flag_default == 1 then return name end
  end
end

-- Greatest watts and nodes over the partitions that the job names, and the least watts it can do with.
local function declared(jd, parts)
  local watts, most, least = 0, 0, nil
  for name in string.gmatch(jd.partition or default_partition(parts) or "", "[^,]+") do
    local node = NODE[name]
    if node ~= nil then
      local nodes = most_nodes(jd, node.cpus)
      watts = math.max(watts, nodes * node.watts)
      most = math.max(most, nodes)
      least = math.min(least or nodes * node.least, nodes * node.least)
    end
  end
  return watts, most, least
end

local function with_watts(licences, watts)
  local kept = {}
  for piece in string.gmatch(licences or "", "[^,]+") do
    if string.match(piece, "^[^:=]*") ~= LICENCE then table.insert(kept, piece) end
  end
  table.insert(kept, string.format("%s:%d", LICENCE, watts))
  return table.concat(kept, ",")
end

function slurm_job_submit(jd, parts, uid)
  if site ~= nil and site.slurm_job_submit ~= nil then
    local answer = site.slurm_job_submit(jd, parts, uid)
    if answer ~= slurm.SUCCESS then return answer end
  end
  local watts, most, least = declared(jd, parts)
  if most == 0 then return slurm.SUCCESS end
  local working = at_work()
  local too_much = WHOLE_POOL_W > 0 and watts > WHOLE_POOL_W
  if too_much and (least > WHOLE_POOL_W or not working) then
    local text = "wattqueue: %d nodes draw up to %d W in the budget's terms, the whole budget is %d W"
    slurm.log_user(string.format(text, most, watts, WHOLE_POOL_W))
    return slurm.ERROR
  end
  jd.licenses = with_watts(jd.licenses, too_much and WHOLE_POOL_W or watts)
  if not given(jd.max_nodes) then jd.max_nodes = most end
  if working then
    jd.admin_comment = jd.priority == 0 and USER_HELD or too_much and NEEDS_CONTROLLER or HELD
    jd.priority = 0
  end
  return slurm.SUCCESS
end

local function may(uid)
  return uid == 0 or OPERATORS[uid] == true
end

local function refuse(text)
  slurm.log_user("wattqueue: " .. text)
  return slurm.ERROR
end

function slurm_job_modify(jd, rec, parts, uid)
  if site ~= nil and site.slurm_job_modify ~= nil then
    local answer = site.slurm_job_modify(jd, rec, parts, uid)
    if answer ~= slurm.SUCCESS then return answer end
  end
  local managed = string.match(rec.licenses or "", "%f[%w]" .. LICENCE .. ":") ~= nil
  if may(uid) or not managed then return slurm.SUCCESS end
  if jd.licenses ~= nil then
    return refuse("licences of this job are set by the power budget")
  end
  if given(jd.min_nodes) or given(jd.max_nodes) or given(jd.num_tasks) or given(jd.min_cpus)
     or given(jd.cpus_per_task) or given(jd.ntasks_per_node) or jd.partition ~= nil then
    return refuse("size and partition stand in the power budget: cancel the job and submit it anew")
  end
  local held = rec.priority == 0
  if jd.priority == INFINITE and held and rec.admin_comment == USER_HELD then return slurm.SUCCESS end
  if jd.priority ~= nil and jd.priority ~= NO_VAL then
    return refuse("this job waits for its watts; StartTime= keeps it from starting before a time of yours")
  end
  -- Slurm 22.05 releases a held job, even one held by an administrator, when its nice value changes
  if held and jd.nice ~= nil and jd.nice ~= NO_VAL then
    return refuse("the nice value of a held job cannot be changed")
  end
  return slurm.SUCCESS
end

return slurm.SUCCESS
