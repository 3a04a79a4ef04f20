import{a as p,c as m,ia as o}from"./chunk-OISV4XTD.js";m(p(o,null),document.getElementById("app"));
