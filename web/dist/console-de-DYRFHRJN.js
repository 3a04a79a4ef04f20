import{a as p,c as m,ia as o}from"./chunk-4DPY5QN7.js";m(p(o,null),document.getElementById("app"));
