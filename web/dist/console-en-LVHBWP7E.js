import{a as p,c as m,ma as o}from"./chunk-L42F2CWI.js";m(p(o,null),document.getElementById("app"));
