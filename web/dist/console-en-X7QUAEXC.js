import{a as p,c as m,ia as o}from"./chunk-CVBQYWEY.js";m(p(o,null),document.getElementById("app"));
